#include "server/worker_pool.h"

#include <filesystem>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr absl::string_view kFolderName = "worker";

// Removes what a daemon before this one left. What can't be removed is in
// nobody's way: no worker gets a folder that was another's.
void RemoveOldFolders(const std::string& scratch_folder) {
  std::error_code error;
  std::vector<std::filesystem::path> old;
  for (const auto& entry :
       std::filesystem::directory_iterator(scratch_folder, error)) {
    if (absl::StartsWith(entry.path().filename().string(), kFolderName)) {
      old.push_back(entry.path());
    }
  }
  for (const auto& path : old) std::filesystem::remove_all(path, error);
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Start(
    const WorkerLimits& limits, int count, const std::string& scratch_folder,
    Counters& counters) {
  auto pool = absl::WrapUnique(new WorkerPool(limits, count));
  RemoveOldFolders(scratch_folder);
  for (int i = 0; i < count; ++i) {
    pool->links_.push_back(std::make_unique<WorkerLink>(
        pool->limits_, i, absl::StrCat(scratch_folder, "/", kFolderName, i),
        pool->queue_, pool->roster_, counters));
  }
  for (const auto& link : pool->links_) {
    pool->threads_.emplace_back([&link = *link] { link.Drive(); });
  }
  RETURN_IF_ERROR(pool->roster_.WaitForFirst());
  return pool;
}

void WorkerPool::End() {
  queue_.End();
  roster_.End();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace kiln

#include "tests/support/left_behind.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

// A jailer, an init and the worker itself.
constexpr int kProcessesAWorker = 3;

// Those whose command line names the folder: workers, and all that they forked.
int ProcessesOf(const std::string& scratch) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream in(entry.path() / "cmdline");
    std::string words;
    std::getline(in, words);
    if (absl::StrContains(words, absl::StrCat("scratch=", scratch))) ++found;
  }
  return found;
}

int FoldersIn(const std::string& folder) {
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    folders += entry.is_directory() ? 1 : 0;
  return folders;
}

}  // namespace

void ExpectNothingLeft(TestDaemon& d) {
  const std::string scratch = absl::StrCat(d.config().data_folder, "/scratch");
  const int workers = d.config().worker_count;
  EXPECT_GT(ProcessesOf(scratch), 0);
  EXPECT_LE(ProcessesOf(scratch), workers * kProcessesAWorker);
  EXPECT_LE(FoldersIn(scratch), workers);
  d.Stop();
  EXPECT_EQ(ProcessesOf(scratch), 0);
  EXPECT_EQ(FoldersIn(scratch), 0);
}

}  // namespace kiln

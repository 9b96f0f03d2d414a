#include "client/compilectl/installation.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/time/time.h"
#include "client/local_worker.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

std::filesystem::path OwnFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace

bool IsInWheel() {
  std::error_code error;
  const std::filesystem::path folder = OwnFolder();
  return folder.filename() == "_bin" &&
         std::filesystem::exists(folder.parent_path() / "__init__.py", error);
}

std::string KilndCommand() {
  std::error_code error;
  const std::filesystem::path folder = OwnFolder();
  if (IsInWheel()) return (folder / "kilnd").string();
  const std::filesystem::path tree = folder.parent_path().parent_path();
  return std::filesystem::exists(tree / "server", error) ? "./kiln daemon"
                                                         : "kilnd";
}

absl::StatusOr<wire::HelloReply> AskInstalledWorker(
    std::vector<std::string> environment) {
  std::error_code error;
  std::filesystem::path program = OwnFolder() / "kiln-worker";
  if (!std::filesystem::exists(program, error)) {
    program = OwnFolder().parent_path().parent_path() / "compiler/kiln-worker";
  }
  LocalWorkerOptions options = {
      .program = program.string(),
      .scratch_root = std::filesystem::temp_directory_path(error).string(),
      .environment = std::move(environment)};
  LocalWorker worker(std::move(options));
  return worker.Hello(SteadyIn(absl::Seconds(20)));
}

}  // namespace kiln

#include "compiler/toolchain/host_cc_toolchain.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/toolchain/child_process.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr absl::string_view kNames[] = {"g++", "clang++", "clang++-14"};

std::string FindProgram(absl::string_view name, absl::string_view search_path) {
  for (absl::string_view dir : absl::StrSplit(search_path, ':')) {
    std::string path = absl::StrCat(dir, "/", name);
    if (!dir.empty() && access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

// Reads and removes the file, so that the scratch folder stays empty.
absl::StatusOr<std::string> TakeFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return MakeError(ErrorReason::kStorage,
                     absl::StrCat(path, ": ", strerror(errno)));
  std::string bytes;
  char chunk[1 << 16];
  ssize_t n;
  while ((n = read(fd, chunk, sizeof(chunk))) > 0) bytes.append(chunk, n);
  close(fd);
  unlink(path.c_str());
  return bytes;
}

class HostCcToolchain final : public Toolchain {
 public:
  explicit HostCcToolchain(HostCcConfig config) : config_(std::move(config)) {}

  absl::string_view name() const override {
    return absl::StrContains(config_.compiler, "clang") ? "clang++" : "g++";
  }

  absl::StatusOr<std::string> Version() override {
    RETURN_IF_ERROR(Find());
    if (!version_.empty()) return version_;
    ASSIGN_OR_RETURN(const ChildResult said,
                     RunChild({config_.compiler, "--version"}, Env(), ""));
    const std::vector<std::string> lines = absl::StrSplit(said.output, '\n');
    version_ = lines[0];
    return version_;
  }

  absl::StatusOr<BuiltObject> Build(
      absl::string_view source, absl::Span<const std::string> flags) override {
    RETURN_IF_ERROR(Find());
    if (access(config_.scratch_dir.c_str(), W_OK | X_OK) != 0)
      return MakeError(ErrorReason::kStorage,
                       absl::StrCat("scratch folder ", config_.scratch_dir,
                                    ": ", strerror(errno)));
    const std::string object = absl::StrCat(config_.scratch_dir, "/unit.so");
    std::vector<std::string> argv = {config_.compiler};
    argv.insert(argv.end(), flags.begin(), flags.end());
    // No build id, no symbol table, no random names: the bytes are a function
    // of source and flags.
    for (absl::string_view flag :
         {"-shared", "-nostdlib", "-fno-ident", "-frandom-seed=kiln", "-s",
          "-Wl,--build-id=none", "-Wl,-z,noseparate-code",
          "-Wl,--hash-style=gnu", "-x", "c++", "-", "-o"})
      argv.emplace_back(flag);
    argv.push_back(object);
    if (name() == "clang++")
      argv.erase(std::find(argv.begin(), argv.end(), "-frandom-seed=kiln"));

    ASSIGN_OR_RETURN(ChildResult child, RunChild(argv, Env(), source));
    if (child.exit_code != 0)
      return MakeError(ErrorReason::kToolchainRejected,
                       absl::StrCat(name(), " ended with ", child.exit_code,
                                    ": ", child.output.substr(0, 4096)));
    ASSIGN_OR_RETURN(std::string image, TakeFile(object));
    return BuiltObject{std::move(image), std::move(child.output)};
  }

 private:
  absl::Status Find() {
    if (!config_.compiler.empty()) {
      if (access(config_.compiler.c_str(), X_OK) == 0) return absl::OkStatus();
      return MakeError(ErrorReason::kNoToolchain,
                       absl::StrCat("host compiler ", config_.compiler, ": ",
                                    strerror(errno)));
    }
    for (absl::string_view candidate : kNames) {
      config_.compiler = FindProgram(candidate, config_.search_path);
      if (!config_.compiler.empty()) return absl::OkStatus();
    }
    return MakeError(
        ErrorReason::kNoToolchain,
        absl::StrCat("host compiler: none of g++, clang++ and "
                     "clang++-14 in ",
                     config_.search_path, "; type: apt-get install g++"));
  }

  std::vector<std::string> Env() const {
    return {absl::StrCat("PATH=", config_.search_path), "LC_ALL=C",
            absl::StrCat("TMPDIR=", config_.scratch_dir)};
  }

  HostCcConfig config_;
  std::string version_;
};

}  // namespace

std::unique_ptr<Toolchain> MakeHostCcToolchain(HostCcConfig config) {
  return std::make_unique<HostCcToolchain>(std::move(config));
}

}  // namespace kiln

#include "compiler/toolchain/host_cc_toolchain.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
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

// Has a compiler that said `output` failed because its disk is full? When it
// fails it removes what it wrote, so its own words go first.
bool LacksRoom(const HostCcConfig& config, absl::string_view output) {
  if (absl::StrContains(output, strerror(ENOSPC))) return true;
  struct statvfs room = {};
  return statvfs(config.scratch_dir.c_str(), &room) == 0 &&
         (static_cast<int64_t>(room.f_bavail) *
                  static_cast<int64_t>(room.f_frsize) <
              config.least_free_bytes ||
          (room.f_files > 0 && room.f_favail == 0));
}

// What tells a program from the one that replaced it. Never leaves the process.
struct Stamp {
  std::string path;
  ino_t inode = 0;
  off_t bytes = 0;
  int64_t seconds = 0;
  int64_t nanoseconds = 0;

  friend bool operator==(const Stamp&, const Stamp&) = default;
};

Stamp StampOf(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return {path};
  return {path, found.st_ino, found.st_size, found.st_mtim.tv_sec,
          found.st_mtim.tv_nsec};
}

class HostCcToolchain final : public Toolchain {
 public:
  explicit HostCcToolchain(HostCcConfig config) : config_(std::move(config)) {}

  absl::string_view name() const override {
    return absl::StrContains(config_.compiler, "clang") ? "clang++" : "g++";
  }

  absl::StatusOr<std::string> Version() override {
    if (!version_.empty()) return version_;
    asked_ = true;
    absl::StatusOr<std::string> found = AskVersion();
    if (found.ok()) {
      version_ = *found;
    } else {
      stamps_ = Stamps();
    }
    return found;
  }

  std::string path() const override {
    return version_.empty() ? "" : config_.compiler;
  }

  bool Replaced() override { return asked_ && Stamps() != stamps_; }

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
    if (child.exit_code != 0) {
      unlink(object.c_str());
      return Failed(child);
    }
    ASSIGN_OR_RETURN(std::string image, TakeFile(object));
    return BuiltObject{std::move(image), std::move(child.output)};
  }

 private:
  absl::Status Failed(const ChildResult& child) const {
    const std::string said =
        absl::StrCat(name(), " ended with ", child.exit_code, ": ",
                     child.output.substr(0, 4096));
    if (!LacksRoom(config_, child.output))
      return MakeError(ErrorReason::kToolchainRejected, said);
    return MakeError(
        ErrorReason::kStorage,
        absl::StrCat("scratch folder ", config_.scratch_dir,
                     ": its disk has no room to compile; free some, or name "
                     "another with --data-folder (",
                     said, ")"));
  }

  // The programs that the compiler hands its work to; the linker last.
  absl::Status FindParts() {
    parts_.clear();
    ASSIGN_OR_RETURN(const std::string front,
                     Ask({config_.compiler, "-print-prog-name=cc1plus"}));
    // A compiler prints what it does not have as it was asked: clang is one
    // program with its front end.
    if (absl::StrContains(front, '/')) parts_.push_back(front);
    for (const absl::string_view name : {"as", "ld"}) {
      const std::string path = FindProgram(name, config_.search_path);
      if (!path.empty()) {
        parts_.push_back(path);
        continue;
      }
      return MakeError(
          ErrorReason::kNoToolchain,
          absl::StrCat("host compiler ", config_.compiler, ": found no ", name,
                       " in ", config_.search_path,
                       "; type: apt-get install binutils"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> AskVersion() {
    RETURN_IF_ERROR(Find());
    RETURN_IF_ERROR(FindParts());
    stamps_ = Stamps();
    ASSIGN_OR_RETURN(std::string version, Ask({config_.compiler, "--version"}));
    // The assembler is of the linker's package.
    ASSIGN_OR_RETURN(const std::string linker,
                     Ask({parts_.back(), "--version"}));
    return absl::StrCat(version, ", ", linker);
  }

  // The first line that a program says.
  absl::StatusOr<std::string> Ask(const std::vector<std::string>& argv) const {
    ASSIGN_OR_RETURN(const ChildResult said, RunChild(argv, Env(), ""));
    std::vector<std::string> lines = absl::StrSplit(said.output, '\n');
    if (said.exit_code == 0 && !lines[0].empty()) return std::move(lines[0]);
    return MakeError(
        ErrorReason::kNoToolchain,
        absl::StrCat("host compiler ", argv[0], ": ended with ", said.exit_code,
                     " when asked for ", argv.back(), ": ", lines[0]));
  }

  // Of the compiler and its parts as they are now; empty without a compiler.
  std::vector<Stamp> Stamps() {
    std::vector<Stamp> stamps;
    if (!Find().ok()) return stamps;
    stamps.push_back(StampOf(config_.compiler));
    for (const std::string& part : parts_) stamps.push_back(StampOf(part));
    return stamps;
  }

  absl::Status Find() {
    if (!config_.compiler.empty()) {
      if (access(config_.compiler.c_str(), X_OK) == 0) return absl::OkStatus();
      return CannotRun(errno);
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

  absl::Status CannotRun(int error) const {
    return MakeError(
        ErrorReason::kNoToolchain,
        absl::StrCat("host compiler ", config_.compiler, ": ", strerror(error),
                     error == EACCES
                         ? absl::StrCat(" for user ", geteuid(),
                                        ", as whom this worker runs; let "
                                        "everybody read and enter its folders")
                         : ""));
  }

  std::vector<std::string> Env() const {
    return {absl::StrCat("PATH=", config_.search_path), "LC_ALL=C",
            absl::StrCat("TMPDIR=", config_.scratch_dir)};
  }

  HostCcConfig config_;
  bool asked_ = false;  // for the version
  std::string version_;
  std::vector<std::string> parts_;  // paths
  std::vector<Stamp> stamps_;       // as the version was told; empty: none was
};

}  // namespace

std::unique_ptr<Toolchain> MakeHostCcToolchain(HostCcConfig config) {
  return std::make_unique<HostCcToolchain>(std::move(config));
}

}  // namespace kiln

#include "proto/jail/compiler_folders.h"

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// The folder that a compiler was installed into, as far as its place tells:
// /opt/gcc of /opt/gcc/bin/g++, and its own folder elsewhere.
fs::path PrefixOf(const fs::path& program) {
  const fs::path folder = program.parent_path();
  const bool installed =
      folder.filename() == "bin" && folder.parent_path().has_relative_path();
  return installed ? folder.parent_path() : folder;
}

}  // namespace

std::vector<std::string> CompilerFolders(const std::vector<std::string>& env) {
  std::vector<std::string> folders;
  for (const std::string& entry : env) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    const bool compiler = parts.first == "KILN_HOST_CC";
    if (!compiler && parts.first != "KILN_NVRTC" &&
        parts.first != "KILN_CUDA_LIBRARY_PATH" &&
        parts.first != "LD_LIBRARY_PATH") {
      continue;
    }
    for (const absl::string_view path :
         absl::StrSplit(parts.second, ':', absl::SkipEmpty())) {
      const fs::path folder =
          compiler ? PrefixOf(std::string(path)) : fs::path(std::string(path));
      // All of / would be no jail.
      if (absl::StartsWith(path, "/") && folder.has_relative_path()) {
        folders.push_back(folder.string());
      }
    }
  }
  return folders;
}

}  // namespace kiln

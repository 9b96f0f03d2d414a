#include "runtime/shared_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(
    const std::vector<std::string>& names,
    const std::vector<std::string>& folders) {
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    for (const std::string& name : names) {
      paths.push_back(absl::StrCat(folder, "/", name));
    }
  }
  paths.insert(paths.end(), names.begin(), names.end());
  for (const std::string& path : paths) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return SharedLibrary(handle, path);
  }
  return MakeError(
      ErrorReason::kNoDevice,
      absl::StrCat(absl::StrJoin(names, " or "), ": not on this machine (in ",
                   folders.empty() ? "no configured folder"
                                   : absl::StrJoin(folders, ", "),
                   " or where the loader looks)"));
}

void* SharedLibrary::FindOrNull(const char* symbol) const {
  return dlsym(handle_, symbol);
}

void* SharedLibrary::FindAsCalledWithin(const char* symbol) const {
  void* const shared = dlsym(RTLD_DEFAULT, symbol);
  return shared != nullptr ? shared : FindOrNull(symbol);
}

absl::Status SharedLibrary::Missing(absl::string_view symbol) const {
  return MakeError(ErrorReason::kNoDevice,
                   absl::StrCat(path_, ": has no ", symbol));
}

}  // namespace kiln

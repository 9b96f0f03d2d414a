#include "proto/jail/jail_view.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSystem[] = {"/usr",
                                   "/bin",
                                   "/sbin",
                                   "/lib",
                                   "/lib64",
                                   "/lib32",
                                   "/etc/ld.so.cache",
                                   "/etc/alternatives"};
constexpr const char* kDevices[] = {"/dev/null", "/dev/zero", "/dev/full",
                                    "/dev/random", "/dev/urandom"};
// Where CUDA's driver finds out about devices.
constexpr const char* kGpuFolders[] = {"/sys"};
// More links than any folder of libraries holds.
constexpr int kMaxLinks = 256;

void AddIfThere(const fs::path& path, std::vector<std::string>& paths) {
  std::error_code error;
  if (fs::exists(path, error)) paths.push_back(path.string());
}

// `folder` and the files that links in it lead to.
void AddWithTargets(const fs::path& folder, std::vector<std::string>& paths) {
  AddIfThere(folder, paths);
  std::error_code error;
  int links = 0;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.is_symlink(error) || ++links > kMaxLinks) continue;
    const fs::path target = fs::canonical(entry.path(), error);
    if (!error) paths.push_back(target.string());
  }
}

void AddGpu(JailView& view) {
  view.writes_proc = true;
  for (const char* folder : kGpuFolders) AddIfThere(folder, view.readable);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev", error)) {
    if (absl::StartsWith(entry.path().filename().string(), "nvidia")) {
      view.devices.push_back(entry.path().string());
    }
  }
}

}  // namespace

JailView ViewOf(const JailSpec& spec) {
  JailView view;
  for (const char* path : kSystem) AddIfThere(path, view.readable);
  for (const char* path : kDevices) AddIfThere(path, view.devices);
  for (const std::string& path : spec.readable) {
    AddWithTargets(path, view.readable);
  }
  if (spec.gpu) AddGpu(view);
  view.writable = spec.writable;
  view.writable.push_back(spec.scratch);
  return view;
}

}  // namespace kiln

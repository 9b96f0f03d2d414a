#include "runtime/shared_object.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/object_code.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// A memory file that closes itself.
class MemoryFile {
 public:
  static absl::StatusOr<MemoryFile> Of(absl::string_view bytes) {
    MemoryFile file(memfd_create("kiln-module", MFD_CLOEXEC));
    if (file.fd_ < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("memory file: ", std::strerror(errno)));
    }
    while (!bytes.empty()) {
      const ssize_t written = write(file.fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        return absl::ResourceExhaustedError(
            absl::StrCat("memory file: ", std::strerror(errno)));
      }
      bytes.remove_prefix(written);
    }
    return file;
  }

  MemoryFile(MemoryFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  MemoryFile& operator=(MemoryFile&&) = delete;
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }

  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

 private:
  explicit MemoryFile(int fd) : fd_(fd) {}
  int fd_;
};

class SharedObject final : public Module {
 public:
  SharedObject(MemoryFile file, void* handle)
      : file_(std::move(file)), handle_(handle) {}
  ~SharedObject() override { dlclose(handle_); }

  absl::StatusOr<KernelHandle> FindKernel(const std::string& symbol,
                                          uint32_t) const override {
    void* const kernel = dlsym(handle_, symbol.c_str());
    if (kernel == nullptr) {
      return MakeError(
          ErrorReason::kArtifactCorrupt,
          absl::StrCat("kernel ", symbol, ": its module does not export it"));
    }
    return kernel;
  }

 private:
  const MemoryFile file_;  // outlives the handle
  void* const handle_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Module>> LoadSharedObject(
    absl::string_view image) {
  RETURN_IF_ERROR(CheckSharedObject(image));
  ASSIGN_OR_RETURN(MemoryFile file, MemoryFile::Of(image));
  void* const handle = dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return MakeError(
        ErrorReason::kArtifactCorrupt,
        absl::StrCat("module of ", image.size(),
                     " bytes: the loader refused it: ", dlerror()));
  }
  return std::make_unique<SharedObject>(std::move(file), handle);
}

}  // namespace kiln

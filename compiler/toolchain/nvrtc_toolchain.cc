#include "compiler/toolchain/nvrtc_toolchain.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// NVRTC's C interface, as far as it is used. The types are opaque pointers and
// an enum whose 0 is success (NVRTC User Guide, "User Interface").
using NvrtcProgram = void*;
struct NvrtcApi {
  int (*version)(int* major, int* minor) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(NvrtcProgram*, const char* source, const char* name,
                int headers, const char* const*, const char* const*) = nullptr;
  int (*destroy)(NvrtcProgram*) = nullptr;
  int (*compile)(NvrtcProgram, int count, const char* const* options) = nullptr;
  int (*cubin_size)(NvrtcProgram, size_t*) = nullptr;
  int (*cubin)(NvrtcProgram, char*) = nullptr;
  int (*log_size)(NvrtcProgram, size_t*) = nullptr;
  int (*log)(NvrtcProgram, char*) = nullptr;
};

template <typename Function>
bool Resolve(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(library, name));
  return out != nullptr;
}

bool ResolveAll(void* library, NvrtcApi& api) {
  return Resolve(library, "nvrtcVersion", api.version) &&
         Resolve(library, "nvrtcGetErrorString", api.error_string) &&
         Resolve(library, "nvrtcCreateProgram", api.create) &&
         Resolve(library, "nvrtcDestroyProgram", api.destroy) &&
         Resolve(library, "nvrtcCompileProgram", api.compile) &&
         Resolve(library, "nvrtcGetCUBINSize", api.cubin_size) &&
         Resolve(library, "nvrtcGetCUBIN", api.cubin) &&
         Resolve(library, "nvrtcGetProgramLogSize", api.log_size) &&
         Resolve(library, "nvrtcGetProgramLog", api.log);
}

// The release of CUDA whose NVRTC is taken: what our flags and sources are
// tested with. An older one beside it is passed over.
constexpr int kMajor = 13;

// The builtins library must be loaded first: libnvrtc opens it by its bare
// name, which is found only once it is in the process.
void* OpenFrom(const std::string& dir) {
  const std::string prefix = dir.empty() ? "" : absl::StrCat(dir, "/");
  for (int minor = 9; minor >= 0; --minor) {
    const std::string builtins =
        absl::StrCat(prefix, "libnvrtc-builtins.so.", kMajor, ".", minor);
    if (dlopen(builtins.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) break;
  }
  const std::string path = absl::StrCat(prefix, "libnvrtc.so.", kMajor);
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

class NvrtcToolchain final : public Toolchain {
 public:
  explicit NvrtcToolchain(NvrtcConfig config) : config_(std::move(config)) {}

  absl::string_view name() const override { return "nvrtc"; }

  absl::StatusOr<std::string> Version() override {
    RETURN_IF_ERROR(Open());
    int major = 0, minor = 0;
    RETURN_IF_ERROR(Check(api_.version(&major, &minor), "nvrtcVersion"));
    return absl::StrCat("NVRTC ", major, ".", minor);
  }

  // Where the loader found it, by its own search too.
  std::string path() const override {
    Dl_info found = {};
    const bool known =
        looked_ && opened_.ok() &&
        dladdr(reinterpret_cast<const void*>(api_.version), &found) != 0;
    return known ? found.dli_fname : "";
  }

  absl::StatusOr<BuiltObject> Build(
      absl::string_view source, absl::Span<const std::string> flags) override {
    RETURN_IF_ERROR(Open());
    NvrtcProgram program = nullptr;
    RETURN_IF_ERROR(Check(api_.create(&program, std::string(source).c_str(),
                                      "unit.cu", 0, nullptr, nullptr),
                          "nvrtcCreateProgram"));
    absl::StatusOr<BuiltObject> built = Compile(program, flags);
    api_.destroy(&program);
    return built;
  }

 private:
  absl::Status Open() {
    if (!looked_) opened_ = Look();
    looked_ = true;
    return opened_;
  }

  // Once: what was not there when a worker said hello stays away from it, so
  // that all its life it is what it told.
  absl::Status Look() {
    std::vector<std::string> dirs = {config_.only_dir};
    if (config_.only_dir.empty()) {
      dirs = config_.library_dirs;
      dirs.push_back("");  // the loader's own search
    }
    for (const std::string& dir : dirs) {
      void* library = OpenFrom(dir);
      if (library != nullptr && ResolveAll(library, api_))
        return absl::OkStatus();
    }
    if (config_.only_dir.empty()) dirs.back() = "the loader's own folders";
    return MakeError(
        ErrorReason::kNoToolchain,
        absl::StrCat(
            "libnvrtc.so.13: found in none of [", absl::StrJoin(dirs, ", "),
            "]; where CUDA 13 is, start the daemon with "
            "KILN_CUDA_LIBRARY_PATH=FOLDER, the folder that has it; elsewhere "
            "first type: pip install --target DIR 'nvidia-cuda-nvrtc>=13.0,"
            "<13.1', whose folder is DIR/nvidia/cu13/lib"));
  }

  absl::Status Check(int code, absl::string_view call) const {
    if (code == 0) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(call, ": ", api_.error_string(code)));
  }

  absl::StatusOr<BuiltObject> Compile(NvrtcProgram program,
                                      absl::Span<const std::string> flags) {
    std::vector<const char*> options;
    for (const std::string& flag : flags) options.push_back(flag.c_str());
    const int code =
        api_.compile(program, static_cast<int>(options.size()), options.data());
    size_t log_bytes = 0;
    RETURN_IF_ERROR(Check(api_.log_size(program, &log_bytes), "nvrtc log"));
    std::string log(log_bytes, '\0');
    RETURN_IF_ERROR(Check(api_.log(program, log.data()), "nvrtc log"));
    while (!log.empty() && log.back() == '\0') log.pop_back();
    if (code != 0)
      return MakeError(ErrorReason::kToolchainRejected,
                       absl::StrCat("nvrtc: ", api_.error_string(code), ": ",
                                    log.substr(0, 4096)));
    size_t bytes = 0;
    RETURN_IF_ERROR(Check(api_.cubin_size(program, &bytes), "nvrtc cubin"));
    std::string image(bytes, '\0');
    RETURN_IF_ERROR(Check(api_.cubin(program, image.data()), "nvrtc cubin"));
    // Any driver of the same major release loads a cubin (CUDA Compatibility,
    // "Minor Version Compatibility").
    return BuiltObject{std::move(image), std::move(log), kMajor * 1000};
  }

  NvrtcConfig config_;
  bool looked_ = false;
  absl::Status opened_;
  NvrtcApi api_;
};

}  // namespace

std::vector<std::string> UsualCudaFolders() {
  return {"/usr/local/cuda/lib64", "/usr/local/cuda-13.0/lib64",
          "/usr/local/cuda/lib"};
}

std::unique_ptr<Toolchain> MakeNvrtcToolchain(NvrtcConfig config) {
  return std::make_unique<NvrtcToolchain>(std::move(config));
}

}  // namespace kiln

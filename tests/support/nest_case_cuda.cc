#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "tests/support/nest_case.h"

namespace kiln {
namespace {

// The driver's C interface, as far as it is used (CUDA Driver API).
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  void* context = nullptr;
  int (*load)(void**, const void*) = nullptr;
  int (*function)(void**, void*, const char*) = nullptr;
  int (*alloc)(uint64_t*, size_t) = nullptr;
  int (*free)(uint64_t) = nullptr;
  int (*to_device)(uint64_t, const void*, size_t) = nullptr;
  int (*to_host)(void*, uint64_t, size_t) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, unsigned, void*, void**, void**) = nullptr;
  int (*synchronize)() = nullptr;
  int (*set_attribute)(void*, int, int) = nullptr;
};

// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
constexpr int kMaxDynamicSharedBytes = 8;

template <typename F>
bool Find(void* library, const char* name, F& f) {
  f = reinterpret_cast<F>(dlsym(library, name));
  return f != nullptr;
}

// Where the test runs without a GPU: the folder with the emulated libraries.
constexpr char kEmulator[] = "tests/support/cuda_emulator";

// The driver of `path` with a current context, or nullptr where there is no GPU.
const Driver* OpenDriver(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW);
  auto* d = new Driver;
  if (library == nullptr || !Find(library, "cuInit", d->init) ||
      !Find(library, "cuDeviceGet", d->device_get) ||
      !Find(library, "cuDevicePrimaryCtxRetain", d->retain) ||
      !Find(library, "cuCtxSetCurrent", d->set_current) ||
      !Find(library, "cuModuleLoadData", d->load) ||
      !Find(library, "cuModuleGetFunction", d->function) ||
      !Find(library, "cuMemAlloc_v2", d->alloc) ||
      !Find(library, "cuMemFree_v2", d->free) ||
      !Find(library, "cuMemcpyHtoD_v2", d->to_device) ||
      !Find(library, "cuMemcpyDtoH_v2", d->to_host) ||
      !Find(library, "cuLaunchKernel", d->launch) ||
      !Find(library, "cuCtxSynchronize", d->synchronize) ||
      !Find(library, "cuFuncSetAttribute", d->set_attribute))
    return nullptr;
  int device = 0;
  if (d->init(0) != 0 || d->device_get(&device, 0) != 0 ||
      d->retain(&d->context, device) != 0 || d->set_current(d->context) != 0)
    return nullptr;
  return d;
}

const Driver* Gpu() {
  static const Driver* const gpu = OpenDriver("libcuda.so.1");
  return gpu;
}

const Driver* Emulator() {
  static const Driver* const emulator =
      OpenDriver(absl::StrCat(kEmulator, "/libcuda.so.1"));
  return emulator;
}

}  // namespace

bool GpuIsThere() { return Gpu() != nullptr; }

absl::StatusOr<BuiltObject> BuildToRun(const BuiltObject& cubin,
                                       const std::string& unit) {
  if (GpuIsThere()) return cubin;
  thread_local const std::unique_ptr<Toolchain> emulated =
      MakeNvrtcToolchain({.only_dir = kEmulator});
  return emulated->Build(unit, {});
}

void LaunchOnCuda(const std::string& image, const KernelSource& source,
                  absl::FunctionRef<int64_t(const SymExpr&)> value,
                  std::vector<std::vector<char>>& memory,
                  const std::string& where) {
  const Driver* driver = GpuIsThere() ? Gpu() : Emulator();
  ASSERT_NE(driver, nullptr) << "neither a GPU nor " << kEmulator;
  void* module = nullptr;
  void* function = nullptr;
  // Each thread has a current context of its own.
  ASSERT_EQ(driver->set_current(driver->context), 0);
  ASSERT_EQ(driver->load(&module, image.data()), 0);
  ASSERT_EQ(driver->function(&function, module, source.symbol.c_str()), 0);
  std::vector<uint64_t> device(memory.size());
  for (size_t b = 0; b < memory.size(); ++b) {
    ASSERT_EQ(driver->alloc(&device[b], memory[b].size()), 0);
    ASSERT_EQ(driver->to_device(device[b], memory[b].data(), memory[b].size()),
              0);
  }
  uint64_t seed_slot = 0;
  ASSERT_EQ(driver->alloc(&seed_slot, sizeof(NestCase::kSeed)), 0);
  ASSERT_EQ(
      driver->to_device(seed_slot, &NestCase::kSeed, sizeof(NestCase::kSeed)),
      0);
  std::vector<uint64_t> values;
  for (const KernelParam& param : source.params) {
    switch (param.kind) {
      case KernelParam::Kind::kBuffer:
        values.push_back(device[param.buffer]);
        break;
      case KernelParam::Kind::kScalar:
        values.push_back(static_cast<uint64_t>(value(param.scalar)));
        break;
      case KernelParam::Kind::kSeed:
        ADD_FAILURE() << where << ": a CUDA kernel takes the seed's address";
        break;
      case KernelParam::Kind::kSeedSlot:
        values.push_back(seed_slot);
        break;
    }
  }
  std::vector<void*> args;
  for (uint64_t& v : values) args.push_back(&v);
  unsigned grid[3];
  for (int d = 0; d < 3; ++d)
    grid[d] = static_cast<unsigned>(value(source.grid[d]));
  ASSERT_EQ(driver->set_attribute(function, kMaxDynamicSharedBytes,
                                  static_cast<int>(source.shared_bytes)),
            0);
  ASSERT_EQ(driver->launch(function, grid[0], grid[1], grid[2], source.block[0],
                           source.block[1], source.block[2],
                           source.shared_bytes, nullptr, args.data(), nullptr),
            0);
  ASSERT_EQ(driver->synchronize(), 0) << where;
  for (size_t b = 0; b < memory.size(); ++b) {
    ASSERT_EQ(driver->to_host(memory[b].data(), device[b], memory[b].size()),
              0);
    driver->free(device[b]);
  }
  driver->free(seed_slot);
}

void NestCase::RunOnCuda(const std::string& image, const KernelSource& source,
                         const std::string& where, double tolerance) const {
  const Trial trial = Interpret();
  auto memory = FilledMemory(trial.counts);
  LaunchOnCuda(
      image, source, [&](const SymExpr& e) { return Value(e); }, memory, where);
  Compare(trial, memory, where, tolerance);
}

}  // namespace kiln

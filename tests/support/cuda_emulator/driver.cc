// The CUDA driver's C interface, as far as Kiln uses it, for the emulator. All
// that a GPU does on a stream is done before the call returns, or kept by the
// stream's capture (capture.h).

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/cuda_emulator/capture.h"
#include "tests/support/cuda_emulator/grid.h"

namespace {

using kiln_emulator::Dim;
using kiln_emulator::IsCapturing;
using kiln_emulator::Kernel;
using kiln_emulator::Put;

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidImage = 200,
              kNotFound = 500, kAssert = 710;
constexpr int kCaptureUnsupported = 900;
constexpr int kMostShared = 227 << 10, kUnaskedShared = 48 << 10;

struct Function {
  Kernel kernel;
  int static_shared = 0;  // bytes
  int most_dynamic = kUnaskedShared;
};
struct Module {
  void* library = nullptr;
  int static_shared = 0;
  std::map<std::string, Function> functions;
};

// Static shared memory is thread-local memory of the shared object, beside a few
// variables of the emulator's own.
int ThreadLocalBytes(const char* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    std::memcpy(&part, image + header.e_phoff + i * sizeof(part), sizeof(part));
    if (part.p_type != PT_TLS) continue;
    constexpr int kOwn = 128;
    return std::max(0, static_cast<int>(part.p_memsz) - kOwn);
  }
  return 0;
}

std::mutex g_mu;
std::map<uint64_t, std::pair<char*, size_t>> g_memory;  // by address
char g_context;
thread_local void* t_current = nullptr;

// The last byte lies before memory that nobody may touch.
int Allocate(uint64_t* address, size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t rounded = (bytes + 15) / 16 * 16;
  const size_t all = (rounded + page - 1) / page * page + page;
  void* const base = mmap(nullptr, all, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return kOutOfMemory;
  char* const end = static_cast<char*>(base) + all - page;
  mprotect(end, page, PROT_NONE);
  *address = reinterpret_cast<uint64_t>(end - rounded);
  std::memset(end - rounded, 0xff, rounded);
  std::lock_guard<std::mutex> lock(g_mu);
  g_memory[*address] = {static_cast<char*>(base), all};
  return 0;
}

int Free(uint64_t address) {
  std::lock_guard<std::mutex> lock(g_mu);
  const auto found = g_memory.find(address);
  if (found == g_memory.end()) return kInvalidValue;
  munmap(found->second.first, found->second.second);
  g_memory.erase(found);
  return 0;
}

template <class T>
int Fill(uint64_t to, T value, size_t count) {
  T* at = reinterpret_cast<T*>(to);
  for (size_t i = 0; i < count; ++i) at[i] = value;
  return 0;
}

int Launch(Function& function, Dim grid, Dim block, unsigned shared,
           void** parameters) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 ||
      grid.z == 0 || grid.y > 65535 || grid.z > 65535 ||
      grid.x % function.kernel.cluster != 0 ||
      static_cast<int>(shared) > function.most_dynamic)
    return kInvalidValue;
  static std::mutex one_at_a_time;
  std::lock_guard<std::mutex> lock(one_at_a_time);
  const std::string error =
      kiln_emulator::RunGrid(function.kernel, grid, block, shared, parameters);
  if (error.empty()) return 0;
  std::fprintf(stderr, "CUDA emulator: %s\n", error.c_str());
  return kAssert;
}

// Of CUlaunchConfig, what the emulator reads.
struct LaunchConfig {
  unsigned grid[3], block[3];
  unsigned shared;
  void* stream;
};

}  // namespace

extern "C" {

int cuInit(unsigned) { return 0; }
int cuGetErrorName(int code, const char** name) {
  switch (code) {
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      break;
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      break;
    case kAssert:
      *name = "CUDA_ERROR_ASSERT";
      break;
    default:
      *name = "CUDA_ERROR_UNKNOWN";
  }
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
int cuDeviceGet(int* device, int) {
  *device = 0;
  return 0;
}
int cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<size_t>(bytes), "Kiln's CUDA emulator");
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;
  *value = attribute == kMultiprocessors ? 132
           : attribute == kMajor         ? 9
           : attribute == kMinor         ? 0
                                         : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &g_context;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxGetCurrent(void** context) {
  *context = t_current;
  return 0;
}
int cuCtxGetId(void*, unsigned long long* id) {
  *id = 1;
  return 0;
}
int cuCtxSetCurrent(void* context) {
  t_current = context;
  return 0;
}

int cuModuleLoadData(void** module, const void* image) {
  // A shared object's length is where its section headers end.
  const char* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes,
                  "\x7f"
                  "ELF",
                  4) != 0)
    return kInvalidImage;
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof(header));
  std::string path =
      std::filesystem::temp_directory_path() / "kiln-emulator-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return kInvalidImage;
  const size_t length =
      header.e_shoff + size_t{header.e_shentsize} * header.e_shnum;
  const bool written =
      write(file, bytes, length) == static_cast<ssize_t>(length);
  close(file);
  void* library =
      written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr)
    std::fprintf(stderr, "CUDA emulator: %s\n", dlerror());
  unlink(path.c_str());
  if (library == nullptr) return kInvalidImage;
  *module = new Module{library, ThreadLocalBytes(bytes), {}};
  return 0;
}
int cuModuleUnload(void* module) {
  Module* m = static_cast<Module*>(module);
  dlclose(m->library);
  delete m;
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  Module& m = *static_cast<Module*>(module);
  const std::string prefix = "kiln_emulator_";
  Function f;
  f.static_shared = m.static_shared;
  f.most_dynamic = kUnaskedShared - m.static_shared;
  f.kernel.call = reinterpret_cast<void (*)(void**)>(
      dlsym(m.library, (prefix + "call_" + name).c_str()));
  f.kernel.enter = reinterpret_cast<decltype(f.kernel.enter)>(
      dlsym(m.library, "kiln_emulator_enter"));
  const int* cluster = static_cast<const int*>(
      dlsym(m.library, (prefix + "cluster_" + name).c_str()));
  if (f.kernel.call == nullptr || cluster == nullptr) return kNotFound;
  f.kernel.cluster = static_cast<unsigned>(*cluster);
  *function = &m.functions.emplace(name, f).first->second;
  return 0;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  constexpr int kMaxDynamicSharedBytes = 8;
  if (attribute != kMaxDynamicSharedBytes) return kInvalidValue;
  Function& f = *static_cast<Function*>(function);
  if (value + f.static_shared > kMostShared) return kInvalidValue;
  f.most_dynamic = value;
  return 0;
}

int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz,
                   unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** parameters, void**) {
  // How long its parameters are is not known here, so none can be kept.
  if (IsCapturing(stream)) return kCaptureUnsupported;
  return Launch(*static_cast<Function*>(function), {gx, gy, gz}, {bx, by, bz},
                shared, parameters);
}
int cuLaunchKernelEx(const LaunchConfig* c, void* function, void** parameters,
                     void** extra) {
  Function& f = *static_cast<Function*>(function);
  const Dim grid = {c->grid[0], c->grid[1], c->grid[2]};
  const Dim block = {c->block[0], c->block[1], c->block[2]};
  const unsigned shared = c->shared;
  if (parameters != nullptr) {
    if (IsCapturing(c->stream)) return kCaptureUnsupported;
    return Launch(f, grid, block, shared, parameters);
  }
  // Packed: 8 bytes each.
  const auto* const packed = static_cast<const uint64_t*>(extra[1]);
  std::vector<uint64_t> words(packed,
                              packed + *static_cast<size_t*>(extra[3]) / 8);
  return Put(c->stream, [=, &f, words = std::move(words)]() mutable {
    std::vector<void*> addresses;
    for (uint64_t& word : words) addresses.push_back(&word);
    return Launch(f, grid, block, shared, addresses.data());
  });
}

int cuDeviceGetDefaultMemPool(void** pool, int) {
  *pool = &g_context;
  return 0;
}
int cuMemPoolSetAttribute(void*, int, void*) { return 0; }
int cuMemPoolTrimTo(void*, size_t) { return 0; }
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  return Allocate(address, bytes);
}
int cuMemAllocAsync(uint64_t* address, size_t bytes, void*) {
  return Allocate(address, bytes);
}
int cuMemFree_v2(uint64_t address) { return Free(address); }
int cuMemFreeAsync(uint64_t address, void*) { return Free(address); }
int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes,
                         void* stream) {
  return Put(stream, [=] { return cuMemcpyHtoD_v2(to, from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  return Put(stream, [=] { return cuMemcpyDtoH_v2(to, from, bytes); });
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes,
                         void* stream) {
  return Put(stream, [=] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from),
                 bytes);
    return 0;
  });
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count,
                    void* stream) {
  return Put(stream, [=] { return Fill(to, value, count); });
}
int cuMemsetD16Async(uint64_t to, unsigned short value, size_t count,
                     void* stream) {
  return Put(stream, [=] { return Fill(to, value, count); });
}
int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void* stream) {
  return Put(stream, [=] { return Fill(to, value, count); });
}
int cuMemsetD2D32Async(uint64_t to, size_t pitch, unsigned value, size_t width,
                       size_t height, void* stream) {
  return Put(stream, [=] {
    for (size_t row = 0; row < height; ++row)
      Fill(to + row * pitch, value, width);
    return 0;
  });
}
int cuStreamSynchronize(void* stream) {
  return IsCapturing(stream) ? kCaptureUnsupported : 0;
}
int cuCtxSynchronize() { return 0; }
int cuStreamWaitEvent(void*, void*, unsigned) { return 0; }
int cuEventCreate(void** event, unsigned) {
  *event = &g_context;
  return 0;
}
int cuEventRecord(void*, void*) { return 0; }
int cuEventDestroy_v2(void*) { return 0; }

}  // extern "C"

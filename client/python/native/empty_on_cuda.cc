#include "client/python/native/empty_on_cuda.h"

#include <dlfcn.h>

#include <exception>

#include "client/python/native/refusal.h"

namespace {

// What the function's signature is made of, as libtorch lays it out.
struct IntArrayRef {
  const int64_t* data;
  size_t length;
};
enum class ScalarType : int8_t {};
struct OptionalDevice {
  int8_t type;
  int8_t index;
  bool engaged;
};
constexpr int8_t kCuda = 1;

// at::TensorBase: one pointer. What has a destructor is returned in memory of
// the caller's.
struct Tensor {
  ~Tensor() {}
  void* impl = nullptr;
};

using EmptyStrided = Tensor (*)(IntArrayRef sizes, IntArrayRef strides,
                                ScalarType, OptionalDevice);
EmptyStrided empty_strided = nullptr;
constexpr char kName[] =
    "_ZN2at6detail18empty_strided_cudaEN3c108ArrayRefIlEES3_NS1_10ScalarTypeESt"
    "8optionalINS1_6DeviceEE";

}  // namespace

int kiln_empty_on_cuda_learn() {
  void* const library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  empty_strided = reinterpret_cast<EmptyStrided>(dlsym(library, kName));
  return empty_strided != nullptr;
}

void* kiln_empty_on_cuda(int ordinal, int32_t dtype, int64_t rank,
                         const int64_t* sizes, const int64_t* strides) {
  const size_t length = static_cast<size_t>(rank);
  const OptionalDevice device = {kCuda, static_cast<int8_t>(ordinal), true};
  try {
    const Tensor made = empty_strided({sizes, length}, {strides, length},
                                      static_cast<ScalarType>(dtype), device);
    return new void*(made.impl);
  } catch (const std::exception& error) {
    kiln_refusal_note(error.what());
  } catch (...) {
    kiln_refusal_note("libtorch: an exception without words");
  }
  return nullptr;
}

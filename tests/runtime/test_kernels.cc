// CPU kernels for tests of the runtime, by proto/kernel_abi.h.
#include "proto/kernel_abi.h"

namespace {
struct AddWork {
  const float* from;
  float* to;
  float term;
};
void AddPiece(void* context, int64_t begin, int64_t end) {
  const AddWork& work = *static_cast<const AddWork*>(context);
  for (int64_t i = begin; i < end; ++i) work.to[i] = work.from[i] + work.term;
}
}  // namespace

extern "C" {

// buffers: from, to; scalars: count, term
void test_add(void* const* buffers, const int64_t* scalars,
              const KilnCpuRuntime* runtime) {
  AddWork work{static_cast<const float*>(buffers[0]),
               static_cast<float*>(buffers[1]), static_cast<float>(scalars[1])};
  runtime->parallel_for(runtime, scalars[0], 16, AddPiece, &work);
}

// buffers: to; scalars: the seed
void test_seed(void* const* buffers, const int64_t* scalars,
               const KilnCpuRuntime*) {
  static_cast<int64_t*>(buffers[0])[0] = scalars[0];
}

// buffers: to, the address of the seed.
void test_seed_slot(void* const* buffers, const int64_t*,
                    const KilnCpuRuntime*) {
  static_cast<int64_t*>(buffers[0])[0] =
      static_cast<const int64_t*>(buffers[1])[0];
}

// buffers: to; scalars: an index. Adds one to the cell of four that it names.
void test_count(void* const* buffers, const int64_t* scalars,
                const KilnCpuRuntime* runtime) {
  if (scalars[0] >= 0 && scalars[0] < 4) {
    ++static_cast<float*>(buffers[0])[scalars[0]];
  } else {
    *runtime->bad_data = {1, scalars[0], 4};
  }
}

}  // extern "C"

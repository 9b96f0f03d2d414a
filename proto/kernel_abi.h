#ifndef KILN_PROTO_KERNEL_ABI_H_
#define KILN_PROTO_KERNEL_ABI_H_

#include <stdint.h>

// How the runtime calls a generated CPU kernel. The generated source includes
// nothing: compiler/codegen/cpu_prelude writes the same declarations out, and
// a test holds the two together.
//
// A CUDA kernel takes the arguments of its LaunchStep one by one, in order:
// a buffer as a pointer to its element type, a scalar as `long long`, the seed
// by the address of a `long long`, so that a captured launch draws anew each
// time it is replayed.

extern "C" {

// What a kernel found in its data that ends the run: the first of them.
struct KilnBadData {
  // 0: nothing. 1: an index that is none of what it indexes. 2: an assertion that
  // does not hold.
  int64_t found;
  union {
    int64_t index;     // as the data has it
    const char* text;  // the assertion's, in the kernel's module
  };
  int64_t size;  // of the index's dimension
};

// Lent to a kernel for one call.
struct KilnCpuRuntime {
  // Threads that parallel_for may use at once, >= 1. No result depends on it.
  int64_t threads;
  // Calls body(context, begin, end) on disjoint pieces that cover [0, count),
  // each at least `grain` long but the last; returns when all are done. May run
  // pieces on several threads. Not reentrant from inside a body.
  void (*parallel_for)(const struct KilnCpuRuntime* self, int64_t count,
                       int64_t grain,
                       void (*body)(void* context, int64_t begin, int64_t end),
                       void* context);
  // Null, or zeros. A kernel that meets an index out of bounds touches nothing
  // there, goes on, and says so here, as it does of an assertion that does not
  // hold: what it wrote is then worth nothing.
  struct KilnBadData* bad_data;
};

// `buffers`: the LaunchStep's buffer arguments in order, offsets applied.
// `scalars`: its scalar and seed arguments in order.
typedef void (*KilnCpuKernel)(void* const* buffers, const int64_t* scalars,
                              const struct KilnCpuRuntime* runtime);
}

#endif  // KILN_PROTO_KERNEL_ABI_H_

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

// What a kernel found in its data that is no index of what it indexes.
struct KilnBadIndex {
  int64_t found;  // not 0: there was one; the other members tell of one of them
  int64_t index;  // as the data has it
  int64_t size;   // of the dimension
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
  // there, goes on, and says so here: what it wrote is then worth nothing.
  struct KilnBadIndex* bad_index;
};

// `buffers`: the LaunchStep's buffer arguments in order, offsets applied.
// `scalars`: its scalar and seed arguments in order.
typedef void (*KilnCpuKernel)(void* const* buffers, const int64_t* scalars,
                              const struct KilnCpuRuntime* runtime);
}

#endif  // KILN_PROTO_KERNEL_ABI_H_

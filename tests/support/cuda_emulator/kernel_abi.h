// Between a kernel that was compiled for the emulator and the threads that run
// it. Included by both sides; C types alone, so that it needs no library.

#ifndef KILN_TESTS_SUPPORT_CUDA_EMULATOR_KERNEL_ABI_H_
#define KILN_TESTS_SUPPORT_CUDA_EMULATOR_KERNEL_ABI_H_

#include <stddef.h>
#include <stdint.h>

namespace kiln_emulator {

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};

// Where a kernel's source looks for its place, one for each host thread. The
// scheduler writes them whenever it goes on with another thread of a block.
struct Place {
  Dim* thread;
  Dim* block;
  Dim* block_size;
  Dim* grid_size;
  char* anchor;  // a variable of the module's thread-local memory
};

enum class Shuffle { kXor, kUp, kIndex };

// What a kernel asks of the scheduler. Each call may go on with other threads
// before it returns.
struct Host {
  void (*sync_block)();
  void (*sync_warp)();
  void (*sync_cluster)();
  uint64_t (*shuffle)(Shuffle kind, uint64_t bits, int argument, int width);
  char* (*dynamic_shared)();
  // Memory of the same name in block `rank` of the cluster.
  char* (*anchor_of)(unsigned rank);
  char* (*dynamic_shared_of)(unsigned rank);
  // Copies are done as late as a GPU might: when they are waited for.
  void (*copy_later)(void* to, const void* from, int bytes);
  void (*end_batch)();
  void (*wait_for_batches)(int under_way);
  // Ends the launch with a device-side assertion. Does not return.
  void (*fail)(const char* message);
};

}  // namespace kiln_emulator

#endif  // KILN_TESTS_SUPPORT_CUDA_EMULATOR_KERNEL_ABI_H_

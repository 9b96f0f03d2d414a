#ifndef KILN_RUNTIME_LAUNCH_HOOKS_H_
#define KILN_RUNTIME_LAUNCH_HOOKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/dtype.h"
#include "runtime/device.h"

// What profilers and other watchers are told of kernel launches.

namespace kiln {

// An argument of a kernel: a tensor in memory, or a number or workspace, which
// have no sizes.
struct LaunchArgument {
  bool is_tensor = false;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> sizes;
};

struct LaunchFacts {
  std::string name;    // "kiln_poi_fused_add_cos_sin_0": unique in its graph
  std::string symbol;  // of the object code: what a GPU's own profile shows
  std::vector<std::string> operators;  // "add", "cos": what it came from
  std::vector<uint32_t> client_nodes;  // of the request's graph, likewise
  Stream stream = nullptr;
  int64_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
  uint32_t cluster = 0;  // blocks a cluster along x; 0: none
  std::vector<LaunchArgument> arguments;
  std::string mapping;  // "XBLOCK=1024,VECTOR=4": how work is dealt out
  // Points, and reduced points of each; none of several kernels in one.
  std::vector<int64_t> extents;
  int64_t bytes_read = 0;  // of memory, each byte once
  int64_t bytes_written = 0;
  // The translation unit that defines it. Lives as long as the executor.
  absl::string_view source;
};

// A launch, which is about to be made or has just been made. Good during a call
// of a hook.
class Launch {
 public:
  virtual ~Launch() = default;

  virtual absl::string_view name() const = 0;

  // Worked out anew at each call; costs nothing for whoever does not ask.
  virtual LaunchFacts Facts() const = 0;
};

// Called on the thread that runs, around each launch of a run. A launch of an
// empty grid is none. What a hook does to the launch's stream or memory is its
// own to answer for.
class LaunchHooks {
 public:
  virtual ~LaunchHooks() = default;
  virtual void Enter(const Launch& launch) = 0;
  // Also of a launch that the device refused.
  virtual void Exit(const Launch& launch) = 0;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_LAUNCH_HOOKS_H_

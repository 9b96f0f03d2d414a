#ifndef KILN_RUNTIME_GRAPH_TREE_RECORDER_H_
#define KILN_RUNTIME_GRAPH_TREE_RECORDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/graph_tree/liveness.h"

// What the tree asks of whoever can run, capture and replay a function: a
// framework through its binding, or the C++ session with plans.

namespace kiln::graph_tree {

// What a function is to autograd.
enum class Mode { kInference, kForward, kBackward };

struct Input {
  bool is_tensor = false;  // a tensor on the device
  const void* address = nullptr;
  Storage storage = nullptr;
  const void* storage_address = nullptr;
};

// A tensor that the function closes over.
struct Constant {
  Storage storage = nullptr;
  const void* storage_address = nullptr;
};

struct FunctionOptions {
  // How often the function may be recorded anew at one place since an address
  // changed; then it runs without a graph there. No value: no limit.
  std::optional<int> rerecord_limit;
  // Else a static input that has moved is an error.
  bool rerecord_on_moved_static_input = true;
  // Whether it may write to outputs of graphs on its path.
  bool mutation_of_managed_inputs = true;
  bool skip_warm_up = false;
  bool always_warm_up = false;
  // Compares the pool with what is in use after a restore for it and around its
  // first warm-up. Slow.
  bool check_pool = false;
  // That it cannot have a graph is an error.
  bool skip_is_error = false;
};

// A compiled function. Its numbers of inputs and outputs are fixed.
struct Function {
  int id = 0;
  Mode mode = Mode::kInference;
  std::string name;
  std::vector<int> static_inputs;  // expected to keep their addresses
  // Of the addresses of static inputs, in bytes: one elsewhere is copied, and may
  // not be written to.
  uintptr_t static_alignment = 1;
  std::vector<int> mutated_inputs;  // that a call writes to
  std::vector<Constant> constants;  // on the device; live as long as this
  // For messages; shorter than the numbers of inputs and outputs: not known.
  std::vector<std::string> input_names;
  std::vector<std::string> input_traces;
  std::vector<std::string> output_traces;
  std::string mutation_trace;
  FunctionOptions options;
  void* body = nullptr;  // the recorder's own
};

// Whether an input at this address is a static one.
inline bool IsStatic(const Function& function, int input, const void* address) {
  return absl::c_linear_search(function.static_inputs, input) &&
         reinterpret_cast<uintptr_t>(address) % function.static_alignment == 0;
}

// One call. The framework fills in `inputs`; results go where `caller` says.
struct Call {
  std::vector<Input> inputs;
  // Of the program's, by a number of its own. Threads hold their results, and one
  // does not know when another is done with its.
  int64_t thread = 0;
  void* caller = nullptr;  // the recorder's own
};

// What a function gave, or what a recording wrote.
struct Output {
  bool is_tensor = false;
  bool on_device = false;
  const void* storage_address = nullptr;  // null: it has no memory
  Storage storage = nullptr;
};

// Where an input's memory is when a graph is replayed.
enum class InputUse {
  kNone,     // not a tensor
  kStatic,   // where the caller has it, always the same place
  kManaged,  // the output of an earlier graph on the path
  kCopied,   // in the pool: each replay copies it there
};

// How a replay gives an output.
struct OutputRule {
  enum class Kind {
    kValue,      // what the recording saw: a number, or nothing
    kStatic,     // the recorded tensor itself: its memory is not the pool's
    kCached,     // one tensor object, the same each time
    kFresh,      // a new tensor object on memory of the graph
    kOfOutput,   // on the storage of output `index` of this call
    kOfStorage,  // on `storage`, which is live: an earlier graph's output
  };
  Kind kind = Kind::kValue;
  int index = 0;
  Storage storage = nullptr;
};

// A function captured in a graph.
class Recording {
 public:
  virtual ~Recording() = default;

  // Of the capture. Storages live until FirstRun or destruction.
  virtual absl::Span<const Output> outputs() const = 0;

  // Runs the graph on the inputs it was recorded with, and gives the caller
  // the outputs of the capture; those of rules kValue and kStatic are kept for
  // replays. Once, and before the first Replay.
  virtual absl::Status FirstRun(Call& call,
                                absl::Span<const OutputRule> rules) = 0;

  // Copies inputs of use kCopied, runs the graph, gives the outputs and only
  // then drops the caller's inputs: a storage of a rule may hang on them. `rules`
  // and `storages` have an entry an output; the storage of each tensor that the
  // call gives is written to `storages`.
  virtual absl::Status Replay(Call& call, absl::Span<const OutputRule> rules,
                              absl::Span<Storage> storages) = 0;

  // The tensor that a Replay by rule kCached left here, or null; drops it.
  virtual Tensor cached(int output) const = 0;
  virtual void DropCached(int output) = 0;
};

class Recorder {
 public:
  virtual ~Recorder() = default;

  // From here on the calls are another thread's, which may use another stream:
  // what was put on the device before them is done before.
  virtual absl::Status ChangeThread() { return absl::OkStatus(); }

  // An iteration begins while storages that a backward's path gave are in use.
  // Gradients that parameters keep in them, to be added to, get memory of their
  // own, and `call` the addresses of its inputs anew.
  virtual absl::Status KeepGradients(Call& call,
                                     absl::Span<const Storage> storages) {
    return absl::OkStatus();
  }

  // Calls the function as if there were no graphs.
  virtual absl::Status RunPlainly(const Function& function, Call& call) = 0;

  // Calls it with all its memory from the pool. `call.inputs` go as the
  // function drops them.
  virtual absl::StatusOr<std::vector<Output>> WarmUp(const Function& function,
                                                     Call& call) = 0;

  // Captures it. On return the pool has the copies of the inputs of use
  // kCopied free again for what the graph does after their last use, the
  // caller's inputs are dropped, and nothing of the function has run.
  //
  // UNIMPLEMENTED: there can be no capture of it. The caller's inputs are still
  // there, so that it can run plainly.
  virtual absl::StatusOr<std::unique_ptr<Recording>> Record(
      const Function& function, Call& call,
      absl::Span<const InputUse> uses) = 0;

  // Fills in storages and their addresses, which not every call needs, where
  // the caller has left them out.
  virtual absl::Status FindStorages(Call& call) { return absl::OkStatus(); }

  // Whether a live storage stays live when the call's inputs are dropped. `cached`:
  // as for Liveness::IsLive. False: no, or nobody can tell.
  virtual bool OutlivesInputs(const Call& call, Storage storage,
                              Tensor cached) const {
    return false;
  }

  // Drops the caller's reference to an input.
  virtual void DropInput(Call& call, int input) = 0;
};

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_RECORDER_H_

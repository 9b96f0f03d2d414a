#ifndef KILN_RUNTIME_CONSTANT_OPERANDS_H_
#define KILN_RUNTIME_CONSTANT_OPERANDS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/base/mutex.h"
#include "runtime/device.h"
#include "runtime/extern_kernels/extern_kernel.h"
#include "runtime/input_view.h"
#include "runtime/loaded_artifact.h"
#include "runtime/plan.h"

namespace kiln {

// Copies of a bound plan's constant operands in the form that its library calls
// want (PreparedCall::operand_form). A copy is made when a call is first prepared
// and serves all runs, threads, shapes and calls of the plan that want the same
// form of the same operand.
//
// Constant is what the plan says so of: a view of a constant of the artifact, or
// of an input that the caller of Executor::Create declared fixed. Two things do
// not count, because the plan does not say enough of them: what a kernel computes
// from constants alone, and memory that a result of the plan views, which the
// caller may write to. Of inputs that are not declared, such as the parameters of a
// torch.compile model that was not frozen, a convolution makes a copy in every run;
// a product reads them as they lie.
//
// Thread-safe.
class ConstantOperands {
 public:
  // `fixed`: the plan's last inputs, which are the same in every run. Their data
  // must stay as long as CopyFor is called; `artifact` outlives this.
  ConstantOperands(const LoadedArtifact& artifact,
                   absl::Span<const InputView> fixed);
  ~ConstantOperands();

  // Memory of the device, given back when it goes.
  class Copy;

  // `view` in the form that `call` wants, which is `form`. Null where `view` is not
  // constant.
  //
  // RESOURCE_EXHAUSTED  no memory on the device
  // INTERNAL            the library refused
  absl::StatusOr<std::shared_ptr<const Copy>> CopyFor(const PreparedCall& call,
                                                      const OperandForm& form,
                                                      const PlanView& view);

 private:
  struct Entry;
  // Buffer, offset in bytes, layout.
  using Key = std::tuple<int32_t, int64_t, std::string>;

  // The entry of `key`, a new one where none is in use.
  std::shared_ptr<Entry> EntryOf(Key key) ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<Device> device_;
  const Plan& plan_;
  std::vector<char*> bases_;  // of the plan's buffers; null: no constant
  Mutex mu_;
  std::map<Key, std::weak_ptr<Entry>> entries_ ABSL_GUARDED_BY(mu_);
};

// Where a call reads it: ExternBuffers::prepared.
class ConstantOperands::Copy {
 public:
  Copy(std::shared_ptr<Device> device, void* data, int64_t bytes);
  ~Copy();
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  const std::shared_ptr<Device> device_;
  void* const data_;
  const int64_t bytes_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_CONSTANT_OPERANDS_H_

#ifndef KILN_RUNTIME_EXTERN_KERNELS_DNNL_SLAB_H_
#define KILN_RUNTIME_EXTERN_KERNELS_DNNL_SLAB_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/extern_kernels/convolution_steps.h"
#include "runtime/extern_kernels/dnnl_library.h"
#include "runtime/extern_kernels/dnnl_primitive.h"
#include "runtime/extern_kernels/dnnl_reorder.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// A convolution by oneDNN on single threads, in steps of some images: the
// primitive, and a reorder for each operand whose layout is not the caller's.
// Steps may run on several threads at once, when the weights are ready.
// Immutable.
class DnnlSlab {
 public:
  // `most_images` (>= 1) of a step. Called under a SingleThread, as all that
  // runs.
  //
  // UNSUPPORTED_OP  strides that repeat elements; what oneDNN does not
  //                 implement
  static absl::StatusOr<std::shared_ptr<const DnnlSlab>> Create(
      const ConvolutionProblem& p, int64_t most_images,
      std::shared_ptr<const DnnlLibrary> library);

  // By ExternBuffers' numbers; null where there is none.
  using Operands = std::array<char*, 5>;

  int64_t steps() const { return steps_; }
  // Bytes of memory, 64-byte aligned: what all steps share, which may be none,
  // and what each needs while it runs.
  int64_t weights_bytes() const { return weights_bytes_; }
  int64_t room_bytes() const { return room_bytes_; }

  // Brings part `part` < weight_parts() of the weights into the layout that the
  // steps want. Parts may be prepared on several threads at once.
  absl::Status PrepareWeights(int64_t part, const Operands& caller,
                              char* weights) const;
  int64_t weight_parts() const { return weight_parts_.size(); }

  // How the weights lie and how the steps want them, as bytes.
  std::string WeightsLayout() const;

  // Step `step` < steps(), on the operands of the whole slab.
  absl::Status RunStep(int64_t step, Operands caller, char* weights,
                       char* room) const;

 private:
  DnnlSlab(const ConvolutionProblem& step, int64_t steps,
           std::shared_ptr<const DnnlLibrary> library)
      : p_(step),
        steps_(steps),
        library_(std::move(library)),
        written_(WrittenOperand(step.wanted)),
        as_it_lies_(IsComputedAsItLies(p_, library_->has_avx512())) {}

  // Copies what is read into the layout that the primitive wants of it.
  absl::Status ReorderIn(int operand, const Operands& caller, char* to) const;

  // The result as the caller has it, with what oneDNN did not do.
  absl::Status Finish(const DnnlPrimitive::Argument& written, bool has_bias,
                      const Operands& caller) const;

  absl::Status DescribeCaller();

  // What the primitive is asked to compute on: the caller's layout, or any.
  absl::StatusOr<dnnl_memory_desc_t> Wish(int operand) const;

  absl::Status CreatePrimitive();

  absl::Status CreateReorders();
  absl::Status CreateWeightParts();

  // Visits what is written, a line of `count` elements `step` apart at a time,
  // with its channel.
  template <typename Visit>
  void ForEachLine(const Operands& caller, const Visit& visit) const;

  // oneDNN's image product takes no bias: only f32 comes here with one.
  void AddImageBias(const Operands& caller) const;

  // In one pass, while what oneDNN wrote is in the cache.
  void AddAndActivate(const Operands& caller) const;

  // Not by oneDNN: its relu loses a NaN. f32 alone comes here with one.
  void ActivateWritten(const Operands& caller) const;

  const ConvolutionProblem p_;  // of one step
  const int64_t steps_;
  const std::shared_ptr<const DnnlLibrary> library_;
  const int written_;
  const bool as_it_lies_;
  std::array<dnnl_memory_desc_t, 3> caller_{};
  std::unique_ptr<const DnnlPrimitive> primitive_;

  std::array<std::unique_ptr<const DnnlReorder>, 3> reorders_;
  // Each of some of the weights' first dimension; both layouts say where in the
  // whole it lies.
  std::vector<std::unique_ptr<const DnnlReorder>> weight_parts_;
  std::array<int64_t, 4> room_starts_{};
  int64_t room_bytes_ = 0;
  int64_t weights_bytes_ = 0;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_DNNL_SLAB_H_

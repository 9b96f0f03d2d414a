#ifndef KILN_COMPILER_CODEGEN_CUDA_BODY_H_
#define KILN_COMPILER_CODEGEN_CUDA_BODY_H_

// Writes the statements of a CUDA kernel for a group of `width` neighbours on
// the vector axis: first what they share, then wide loads and rows of random
// numbers, then a loop over the neighbours, then wide stores.
//
// In the text, `i<v>` is the first of the neighbours and `e` counts them.

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/codegen/kernel_body.h"

namespace kiln {

class CudaBody : public KernelBody {
 public:
  using KernelBody::KernelBody;

  static constexpr uint32_t kNoAxis = ~0u;
  uint32_t vector_axis = kNoAxis;
  int width = 1;
  // Whether fewer than `width` neighbours may exist; then `m` is their count.
  bool cut = false;
  // A device function for one of several parts of a kernel: `block` counts the
  // part's own blocks, and there are as many as it needs.
  bool is_part = false;

  // Whether a value differs between the neighbours of a group.
  bool IsLanes(AxisSet axes) const {
    return width > 1 && vector_axis != kNoAxis &&
           (axes & AxisBit(vector_axis)) != 0;
  }
  bool IsLanes(ScalarId id) const { return IsLanes(facts.axes[id]); }

  // What one group computes and writes.
  struct Group {
    const std::vector<ScalarId>& nodes;
    const std::vector<uint32_t>& stores;
    // In the loop, after the values and before the stores. `lanes` tells which
    // of the two places this is: once a group, or at each neighbour.
    absl::FunctionRef<absl::Status(bool lanes)> then;
    std::string store_if;  // a condition; empty: always
  };
  absl::Status WriteGroup(const Group& group);

 private:
  Dialect DialectOf(ScalarId) const override { return Dialect::kCuda; }
  std::string Argument(ScalarId id, ScalarId) const override {
    return Text(id);
  }
  std::string SqrtText(DType dtype, const std::string& of) const override;
  absl::Status Load(ScalarId id) override;
  absl::Status IndexValue(ScalarId id) override;
  void IndexCheck(ScalarId id) override;
  void Define(ScalarId id, const std::string& value) override;
  bool IsWide(BufferId buffer, const SymExpr& offset) const;
  bool IsWideRandom(const ScalarNode& node) const;
  std::string At(const SymExpr& e) const;  // of neighbour `e` in the loop
  absl::Status Store(uint32_t index);
  absl::Status Neighbour(const Group& group, const std::vector<bool>& wide,
                         const std::vector<std::string>& wide_store);
  void WideStores(const Group& group,
                  const std::vector<std::string>& wide_store);
  void WideLoad(ScalarId id);
  void WideRandom(ScalarId id);

  bool in_loop_ = false;
};

// Reductions whose accumulator is a k_pair of value and index.
bool IsTupleReduction(ReduceOp op);
// "k_argmax_f32": what takes one step of such a reduction.
std::string TupleStepName(const ScalarNode& reduce);
// A function object that joins two accumulators of `reduce`. UNSUPPORTED_OP
// when its type has none.
absl::StatusOr<std::string> JoinerText(const ScalarNode& reduce);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_BODY_H_

#ifndef KILN_COMPILER_CODEGEN_CPU_BODY_H_
#define KILN_COMPILER_CODEGEN_CPU_BODY_H_

// Writes the statements of a CPU kernel: values, loads and stores, each for one
// point or for K_LANES neighbours on the vector axis.
//
// In the text, `i<v>` is the first of the neighbours and `m` how many of them
// are real (1 .. K_LANES); lanes beyond hold anything.

#include "absl/status/status.h"
#include "compiler/codegen/kernel_body.h"

namespace kiln {

class CpuBody : public KernelBody {
 public:
  using KernelBody::KernelBody;

  static constexpr uint32_t kNoAxis = ~0u;
  uint32_t vector_axis = kNoAxis;

  bool IsLanes(AxisSet axes) const {
    return vector_axis != kNoAxis && (axes & AxisBit(vector_axis)) != 0;
  }
  bool IsLanes(ScalarId id) const {
    return lanes_override_[id] == 0 ? IsLanes(facts.axes[id])
                                    : lanes_override_[id] == 1;
  }

  void Start() { lanes_override_.assign(nest.body.size(), 0); }
  // For a result whose shape is not that of its axes.
  void SetLanes(ScalarId id, bool lanes) {
    lanes_override_[id] = lanes ? 1 : 2;
  }

  // Writes the statement that computes `id`; reductions and scans are the
  // caller's.
  absl::Status Node(ScalarId id);
  absl::Status Store(uint32_t store);

  // The value as lanes, or as it is.
  std::string Operand(ScalarId id, bool lanes) const;

 private:
  absl::Status Load(ScalarId id);
  void IndexValue(ScalarId id);
  void GatherLanes(ScalarId id);
  std::string PerLane(const SymExpr& e) const;
  std::string OneLane(ScalarId id) const;  // the value of lane `l`
  void AtomicAdd(uint32_t store, bool lanes, const std::string& offset);
  void Define(ScalarId id, const std::string& value);

  std::vector<uint8_t> lanes_override_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_BODY_H_

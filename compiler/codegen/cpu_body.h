#ifndef KILN_COMPILER_CODEGEN_CPU_BODY_H_
#define KILN_COMPILER_CODEGEN_CPU_BODY_H_

// Writes the statements of a CPU kernel: values, loads and stores, each for one
// point or for K_LANES neighbours on the vector axis.
//
// In the text, `i<v>` is the index of the first neighbour, and `m`, from 1 to K_LANES,
// how many neighbours there are. Lanes beyond those may hold anything.

#include "absl/status/status.h"
#include "compiler/codegen/kernel_body.h"

namespace kiln {

// The ending of the functions that move a dtype between memory and lanes.
inline absl::string_view MemoryEnding(DType dtype) {
  return IsHalf(dtype) ? "u16" : TypeEnding(dtype);
}

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
  // For a result that is or is not lanes whatever its axes say.
  void SetLanes(ScalarId id, bool lanes) {
    lanes_override_[id] = lanes ? 1 : 2;
  }

  absl::Status Store(uint32_t store);
  // Writes those of a list that change along the vector axis, or those that do not.
  absl::Status Nodes(const std::vector<ScalarId>& nodes, bool lanes);
  absl::Status Stores(const std::vector<uint32_t>& stores, bool lanes);
  // Whether some of them do not change along the vector axis.
  bool AnyStill(const std::vector<uint32_t>& stores) const;

  // From now on `masks` are taken to hold in all lanes. Empty: no mask is.
  void Assume(const std::vector<ScalarId>& masks);
  // "all of `masks` hold in lane `at`", as an expression.
  std::string HoldAt(const std::vector<ScalarId>& masks,
                     const std::string& at) const;

  // "for (i<v> = from; < to) { m = ...".
  void OpenLanes(const std::string& from, const std::string& to);

  // The value, spread over lanes if `lanes` is set.
  std::string Operand(ScalarId id, bool lanes) const;
  std::string Extent(uint32_t axis) const { return Index(facts.extents[axis]); }

 private:
  Dialect DialectOf(ScalarId id) const override {
    return IsLanes(id) ? Dialect::kCpuLanes : Dialect::kCpu;
  }
  std::string Argument(ScalarId id, ScalarId user) const override {
    return Operand(id, IsLanes(user));
  }
  std::string SqrtText(DType dtype, const std::string& of) const override;
  absl::Status Load(ScalarId id) override;
  absl::Status IndexValue(ScalarId id) override;
  void IndexCheck(ScalarId id) override;
  void Define(ScalarId id, const std::string& value) override;
  void GatherLanes(ScalarId id);
  void LoadApart(ScalarId id);
  int64_t StepOf(const SymExpr& offset) const;
  std::string PerLane(const SymExpr& e) const;
  std::string OneLane(ScalarId id) const;  // the value of lane `l`
  void UpdateCell(uint32_t store, bool lanes, const std::string& offset);

  // Whether the load has no mask, or one that is assumed to hold.
  bool IsPlain(const ScalarNode& load) const;
  std::string MaskAt(ScalarId id, const std::string& at) const;

  std::vector<uint8_t> lanes_override_;
  std::vector<ScalarId> assumed_;  // masks
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_BODY_H_

#include "compiler/codegen/cpu_scans.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/scanned_nodes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class ScanWriter {
 public:
  explicit ScanWriter(CpuBody& body)
      : body_(body),
        nest_(body.nest),
        out_(body.out),
        nodes_(NodesOfScans(body.nest, body.facts)) {}

  absl::Status Run() {
    for (ScalarId id : nodes_.outer) RETURN_IF_ERROR(body_.Node(id));
    std::vector<std::string> carried;
    for (ScalarId id : nodes_.ops) {
      carried.push_back(body_.Fresh("c"));
      if (IsPair(id)) {
        out_.Line("k_lse_", TypeEnding(nest_.body[id].dtype), " ",
                  carried.back(), " = {",
                  IdentityText(nest_.body[id].reduce, nest_.body[id].dtype),
                  ", 0.0};");
        continue;
      }
      out_.Line("auto ", carried.back(), " = ", Identity(id), "[0];");
    }
    body_.OpenLanes("0", body_.Extent(body_.vector_axis));
    for (ScalarId id : nodes_.inputs) RETURN_IF_ERROR(body_.Node(id));
    for (size_t k = 0; k < carried.size(); ++k)
      RETURN_IF_ERROR(Scan(nodes_.ops[k], carried[k]));
    for (ScalarId id : nodes_.stored)
      if (!std::count(nodes_.inputs.begin(), nodes_.inputs.end(), id))
        RETURN_IF_ERROR(body_.Node(id));
    for (uint32_t s = 0; s < nest_.stores.size(); ++s)
      RETURN_IF_ERROR(body_.Store(s));
    out_.Close();
    return absl::OkStatus();
  }

 private:
  bool IsPair(ScalarId id) const {
    return nest_.body[id].reduce == ReduceOp::kLogSumExp;
  }

  // In which running values are kept.
  DType Kept(ScalarId id) const {
    const ScalarNode& node = nest_.body[id];
    const bool grows =
        node.reduce == ReduceOp::kSum || node.reduce == ReduceOp::kProd;
    return grows && IsFloat(node.dtype) ? DType::kFloat64 : node.dtype;
  }

  std::string Identity(ScalarId id) const {
    const DType kept = Kept(id);
    return absl::StrCat("k_splat_", TypeEnding(kept), "(",
                        IdentityText(nest_.body[id].reduce, kept), ")");
  }

  // `x` and `y` joined, for single values and for lanes, of which those of eight
  // bytes come in halves.
  static absl::StatusOr<std::string> Join(ReduceOp reduce, DType kept) {
    const bool extreme = reduce == ReduceOp::kMax || reduce == ReduceOp::kMin;
    if (!extreme || SizeInBytes(kept) < 8)
      return CombineText(reduce, kept, "x", "y");
    return absl::StrCat("(x ", reduce == ReduceOp::kMax ? ">" : "<",
                        " y) | (x != x) ? x : y");
  }

  absl::Status Scan(ScalarId id, const std::string& carried) {
    const ScalarNode& node = nest_.body[id];
    if (IsPair(id)) {
      const std::string sums = body_.Fresh("t");
      out_.Line("const ", LaneTypeName(node.dtype), " ", sums, " = k_scan_lse(",
                body_.Operand(node.args[0], true), ", ", carried, ");");
      body_.SetText(id, sums);
      return absl::OkStatus();
    }
    const DType kept = Kept(id);
    ASSIGN_OR_RETURN(const std::string join, Join(node.reduce, kept));
    const std::string value =
        CastText(node.dtype, kept, body_.Operand(node.args[0], true),
                 Dialect::kCpuLanes);
    const std::string all = body_.Fresh("t");
    out_.Line("const ", LaneTypeName(kept), " ", all, " = k_scan_lanes(", value,
              ", ", Identity(id), ", ", carried,
              ", [](auto x, auto y) __attribute__((always_inline)) { return ",
              join, "; });");
    body_.SetText(id, CastText(kept, node.dtype, all, Dialect::kCpuLanes));
    return absl::OkStatus();
  }

  CpuBody& body_;
  const LoopNest& nest_;
  CWriter& out_;
  const ScannedNodes nodes_;
};

}  // namespace

absl::Status WriteCpuScans(CpuBody& body) { return ScanWriter(body).Run(); }

}  // namespace kiln

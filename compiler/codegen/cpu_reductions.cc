#include "compiler/codegen/cpu_reductions.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/kernel_passes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Vectors of a row that are reduced side by side, and the row from which on.
constexpr int kSideBySide = 2;
constexpr int64_t kShortRow = 256;
// Float sums longer than this are summed in two levels.
constexpr int64_t kSumBlock = 4096;

bool IsTuple(ReduceOp op) {
  return op == ReduceOp::kArgMax || op == ReduceOp::kArgMin;
}

class ReductionWriter {
 public:
  ReductionWriter(CpuBody& body, const KernelTiling& tiling, bool by_rows)
      : body_(body),
        tiling_(tiling),
        by_rows_(by_rows),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        passes_(PlanPasses(nest_, facts_, BetweenPasses::kComputeAgain)) {}

  absl::Status Rows() {
    for (const KernelPass& pass : passes_.passes) {
      RETURN_IF_ERROR(body_.Nodes(pass.before, false));
      const int count = SideBySide(pass);
      for (ScalarId id : pass.reduces) Accumulator(id, count);
      RETURN_IF_ERROR(RowPass(pass));
      for (ScalarId id : pass.reduces) RETURN_IF_ERROR(AcrossLanes(id, count));
    }
    RETURN_IF_ERROR(body_.Nodes(passes_.last, false));
    return body_.Stores(passes_.last_stores, false);
  }

  absl::Status Columns() {
    if (HasLanes())
      out_.Line("const int strip = (int)k_ceildiv(v1 - v0, K_LANES);");
    for (const KernelPass& pass : passes_.passes) {
      RETURN_IF_ERROR(body_.Nodes(pass.before, false));
      RETURN_IF_ERROR(StripValues(pass.before));
      for (ScalarId id : pass.reduces)
        Accumulator(id, body_.IsLanes(id) ? kColumnStrip : 1);
      RETURN_IF_ERROR(ColumnPass(pass));
      for (ScalarId id : pass.reduces) {
        const bool lanes = body_.IsLanes(id);
        const char* at = lanes ? "[u]" : "";
        SetTuple(id, absl::StrCat("a", accumulator_[id], at),
                 absl::StrCat("j", accumulator_[id], at), lanes);
      }
    }
    RETURN_IF_ERROR(body_.Nodes(passes_.last, false));
    if (HasLanes()) {
      OpenStrip();
      RETURN_IF_ERROR(body_.Nodes(passes_.last, true));
      RETURN_IF_ERROR(body_.Stores(passes_.last_stores, true));
      out_.Close();
      if (body_.AnyStill(passes_.last_stores)) out_.Open("if (v0 == 0)");
    }
    RETURN_IF_ERROR(body_.Stores(passes_.last_stores, false));
    if (HasLanes() && body_.AnyStill(passes_.last_stores)) out_.Close();
    return absl::OkStatus();
  }

 private:
  // --- Rows: the vector runs along the last reduced axis.

  absl::Status RowPass(const KernelPass& pass) {
    const uint32_t last = facts_.num_axes - 1;
    for (uint32_t axis = facts_.num_outer; axis < last; ++axis) OpenLoop(axis);
    RETURN_IF_ERROR(body_.Nodes(pass.inside, false));
    RETURN_IF_ERROR(body_.Stores(pass.stores, false));
    const bool blocked = NeedsBlocks(pass);
    if (blocked) {
      out_.Open("for (long long part = 0; part < ", body_.Extent(last),
                "; part += ", kSumBlock, ")");
      out_.Line("const long long part_end = k_least(part + ", kSumBlock, ", ",
                body_.Extent(last), ");");
      for (ScalarId id : pass.reduces)
        if (IsFloatSum(id))
          out_.Line(LaneTypeName(nest_.body[id].dtype), " b", accumulator_[id],
                    SideCount(pass), " = {};");
    }
    RETURN_IF_ERROR(RowSpan(pass, blocked ? "part" : "0",
                            blocked ? "part_end" : body_.Extent(last),
                            blocked));
    if (blocked) {
      for (ScalarId id : pass.reduces) AddBlock(id, pass);
      out_.Close();
    }
    for (uint32_t axis = facts_.num_outer; axis < last; ++axis) out_.Close();
    return absl::OkStatus();
  }

  // The sums of a block into those of the row.
  void AddBlock(ScalarId id, const KernelPass& pass) {
    if (!IsFloatSum(id)) return;
    const std::string& n = accumulator_[id];
    for (int u = 0; u < SideBySide(pass); ++u) {
      const std::string at =
          SideBySide(pass) > 1 ? absl::StrCat("[", u, "]") : "";
      out_.Line("a", n, at, " = a", n, at, " + b", n, at, ";");
    }
  }

  // Vectors of the row that a pass reduces side by side, so that one addition
  // need not wait for the one before.
  int SideBySide(const KernelPass& pass) const {
    for (ScalarId id : pass.reduces)
      if (IsTuple(nest_.body[id].reduce)) return 1;
    if (pass.reduces.empty()) return 1;
    const SymExpr& extent = facts_.extents[facts_.num_axes - 1];
    const int count =
        tiling_.accumulators > 0 ? tiling_.accumulators : kSideBySide;
    const bool is_short = extent.is_constant() && extent.constant() < kShortRow;
    return is_short ? 1 : count;
  }
  std::string SideCount(const KernelPass& pass) const {
    const int count = SideBySide(pass);
    return count > 1 ? absl::StrCat("[", count, "]") : "";
  }

  // The row from `from` to `to`: groups of vectors, then what is left.
  absl::Status RowSpan(const KernelPass& pass, const std::string& from,
                       const std::string& to, bool blocked) {
    const int count = SideBySide(pass);
    if (count == 1) {
      body_.OpenLanes(from, to);
      RETURN_IF_ERROR(RowVector(pass, blocked, ""));
      out_.Close();
      return absl::OkStatus();
    }
    const std::string i = CpuBody::AxisName(body_.vector_axis);
    out_.Open();
    out_.Line("long long r = ", from, ";");
    out_.Open("for (; r + ", count, " * K_LANES <= ", to, "; r += ", count,
              " * K_LANES)");
    out_.Line("#pragma GCC unroll ", count);
    out_.Open("for (int u = 0; u < ", count, "; ++u)");
    out_.Line("const long long ", i, " = r + u * K_LANES;");
    out_.Line("const int m = K_LANES;");
    RETURN_IF_ERROR(RowVector(pass, blocked, "[u]"));
    out_.Close();
    out_.Close();
    body_.OpenLanes("r", to);
    RETURN_IF_ERROR(RowVector(pass, blocked, "[0]"));
    out_.Close();
    out_.Close();
    return absl::OkStatus();
  }

  absl::Status RowVector(const KernelPass& pass, bool blocked,
                         const std::string& at) {
    RETURN_IF_ERROR(body_.Nodes(pass.inside, true));
    for (ScalarId id : pass.reduces)
      RETURN_IF_ERROR(RowStep(id, blocked && IsFloatSum(id), at));
    return body_.Stores(pass.stores, true);
  }

  bool IsFloatSum(ScalarId id) const {
    const ScalarNode& node = nest_.body[id];
    return node.reduce == ReduceOp::kSum && IsFloat(node.dtype);
  }
  bool NeedsBlocks(const KernelPass& pass) const {
    const SymExpr& extent = facts_.extents[facts_.num_axes - 1];
    const bool is_short =
        extent.is_constant() && extent.constant() <= kSumBlock;
    return !is_short &&
           std::any_of(pass.reduces.begin(), pass.reduces.end(),
                       [&](ScalarId id) { return IsFloatSum(id); });
  }

  void OpenLoop(uint32_t axis) {
    const std::string i = CpuBody::AxisName(axis);
    out_.Open("for (long long ", i, " = 0; ", i, " < ", body_.Extent(axis),
              "; ++", i, ")");
  }

  // Declares a<n> (and its index j<n>) with the identity, as an array when more
  // than one stand side by side.
  void Accumulator(ScalarId id, int side_by_side) {
    const ScalarNode& node = nest_.body[id];
    const std::string count =
        side_by_side > 1 ? absl::StrCat("[", side_by_side, "]") : "";
    const std::string n = body_.Fresh("");
    accumulator_[id] = n;
    const bool lanes = by_rows_ || body_.IsLanes(id);
    const std::string type =
        lanes ? LaneTypeName(node.dtype) : std::string(CTypeName(node.dtype));
    std::string start = IdentityText(node.reduce, node.dtype);
    if (lanes)
      start = absl::StrCat("k_splat_", TypeEnding(node.dtype), "(", start, ")");
    out_.Line(type, " a", n, count, ";");
    if (IsTuple(node.reduce))
      out_.Line(lanes ? "kv_i64" : "long long", " j", n, count, ";");
    if (!count.empty())
      out_.Open("for (int u = 0; u < ", side_by_side, "; ++u)");
    const char* at = count.empty() ? "" : "[u]";
    out_.Line("a", n, at, " = ", start, ";");
    if (IsTuple(node.reduce))
      out_.Line("j", n, at, " = ", lanes ? "k_splat_i64" : "",
                "(9223372036854775807ll);");
    if (!count.empty()) out_.Close();
  }

  // The running index of a kArgMax or kArgMin, as lanes or one value.
  std::string PositionText(const ScalarNode& node, bool lanes) const {
    if (node.args.size() > 1) return body_.Operand(node.args[1], lanes);
    const std::string first = body_.Index(body_.ReducedPosition());
    if (!lanes) return first;
    return absl::StrCat("k_iota_i64(", first, ", ", by_rows_ ? 1 : 0, ")");
  }

  absl::StatusOr<std::string> TupleStep(const ScalarNode& node,
                                        const std::string& n,
                                        const std::string& at, bool lanes,
                                        const std::string& count) const {
    const char* name =
        node.reduce == ReduceOp::kArgMax ? "k_argmax_" : "k_argmin_";
    if (!IsFloat(node.dtype) && node.dtype != DType::kInt64 &&
        node.dtype != DType::kInt32)
      return MakeError(ErrorReason::kUnsupportedOp,
                       absl::StrCat("reduction ", ReduceOpName(node.reduce),
                                    " of ", ShortName(node.dtype)));
    return absl::StrCat(name, TypeEnding(node.dtype), "(a", n, at, ", j", n, at,
                        ", ", body_.Operand(node.args[0], lanes), ", ",
                        PositionText(node, lanes), count, ");");
  }

  absl::Status RowStep(ScalarId id, bool into_block, const std::string& at) {
    const ScalarNode& node = nest_.body[id];
    const std::string& n = accumulator_[id];
    if (IsTuple(node.reduce)) {
      ASSIGN_OR_RETURN(const std::string step,
                       TupleStep(node, n, "", true, ", m"));
      out_.Line(step);
      return absl::OkStatus();
    }
    const std::string a = absl::StrCat(into_block ? "b" : "a", n, at);
    ASSIGN_OR_RETURN(const std::string next,
                     CombineText(node.reduce, node.dtype, a,
                                 body_.Operand(node.args[0], true)));
    out_.Line(a, " = k_keep(m, ", next, ", ", a, ");");
    return absl::OkStatus();
  }

  // From one value a lane to one value, in a fixed tree.
  absl::Status AcrossLanes(ScalarId id, int count) {
    const ScalarNode& node = nest_.body[id];
    const std::string& n = accumulator_[id];
    const std::string name = body_.Fresh("t");
    body_.SetLanes(id, false);
    if (IsTuple(node.reduce)) {
      const char* which =
          node.reduce == ReduceOp::kArgMax ? "k_argmax_" : "k_argmin_";
      out_.Open("for (int l = 1; l < K_LANES; ++l)");
      out_.Line(CTypeName(node.dtype), " x = a", n, "[0];");
      out_.Line("long long y = j", n, "[0];");
      out_.Line(which, TypeEnding(node.dtype), "(x, y, a", n, "[l], j", n,
                "[l]);");
      out_.Line("a", n, "[0] = x;");
      out_.Line("j", n, "[0] = y;");
      out_.Close();
      SetTuple(id, absl::StrCat("a", n, "[0]"), absl::StrCat("j", n, "[0]"),
               false);
      return absl::OkStatus();
    }
    const std::string a = absl::StrCat("a", n, count > 1 ? "[0]" : "");
    for (int u = 1; u < count; ++u) {
      ASSIGN_OR_RETURN(const std::string both,
                       CombineText(node.reduce, node.dtype, a,
                                   absl::StrCat("a", n, "[", u, "]")));
      out_.Line(a, " = ", both, ";");
    }
    ASSIGN_OR_RETURN(
        const std::string next,
        CombineText(node.reduce, node.dtype, absl::StrCat(a, "[l]"),
                    absl::StrCat(a, "[l + h]")));
    out_.Line("for (int h = K_LANES / 2; h > 0; h /= 2)");
    out_.Line("  for (int l = 0; l < h; ++l) ", a, "[l] = ", next, ";");
    out_.Line("const ", CTypeName(node.dtype), " ", name, " = ", a, "[0]",
              node.dtype == DType::kBool ? " != 0;" : ";");
    SetTuple(id, name, "", false);
    return absl::OkStatus();
  }

  // Names a reduction's members for those that read them.
  void SetTuple(ScalarId id, const std::string& first,
                const std::string& second, bool lanes) {
    body_.SetText(id, first);
    body_.SetLanes(id, lanes);
    for (ScalarId other = id + 1; other < nest_.body.size(); ++other) {
      const ScalarNode& node = nest_.body[other];
      if (node.op != ScalarOp::kReduceResult || node.args[0] != id) continue;
      body_.SetText(other, node.number.i == 0 ? first : second);
      body_.SetLanes(other, lanes);
    }
  }

  // --- Columns: the vector runs along the last outer axis, a strip of vectors
  // side by side; every lane reduces its own column.

  bool HasLanes() const { return body_.vector_axis != CpuBody::kNoAxis; }

  void OpenStrip() {
    const std::string i = CpuBody::AxisName(body_.vector_axis);
    out_.Open("for (int u = 0; u < strip; ++u)");
    out_.Line("const long long ", i, " = v0 + u * K_LANES;");
    out_.Line("const int m = (int)k_least(v1 - ", i, ", K_LANES);");
  }

  // Values of the columns that a pass needs, computed once for the strip.
  absl::Status StripValues(const std::vector<ScalarId>& nodes) {
    std::vector<ScalarId> lanes;
    for (ScalarId id : nodes)
      if (body_.IsLanes(id)) lanes.push_back(id);
    if (lanes.empty()) return absl::OkStatus();
    std::vector<std::string> names;
    for (ScalarId id : lanes) {
      names.push_back(body_.Fresh("x"));
      out_.Line(LaneTypeName(nest_.body[id].dtype), " ", names.back(), "[",
                kColumnStrip, "];");
    }
    OpenStrip();
    for (ScalarId id : lanes) RETURN_IF_ERROR(body_.Node(id));
    for (size_t k = 0; k < lanes.size(); ++k)
      out_.Line(names[k], "[u] = ", body_.Operand(lanes[k], true), ";");
    out_.Close();
    for (size_t k = 0; k < lanes.size(); ++k)
      body_.SetText(lanes[k], absl::StrCat(names[k], "[u]"));
    return absl::OkStatus();
  }

  absl::Status ColumnPass(const KernelPass& pass) {
    const uint32_t last = facts_.num_axes - 1;
    for (uint32_t axis = facts_.num_outer; axis < last; ++axis) OpenLoop(axis);
    for (ScalarId id : pass.inside)
      if (nest_.body[id].op == ScalarOp::kScan) RETURN_IF_ERROR(ScanState(id));
    OpenLoop(last);
    RETURN_IF_ERROR(PointNodes(pass.inside, false));
    RETURN_IF_ERROR(body_.Stores(pass.stores, false));
    RETURN_IF_ERROR(ColumnSteps(pass.reduces, false));
    if (HasLanes()) {
      OpenStrip();
      RETURN_IF_ERROR(PointNodes(pass.inside, true));
      RETURN_IF_ERROR(ColumnSteps(pass.reduces, true));
      RETURN_IF_ERROR(body_.Stores(pass.stores, true));
      out_.Close();
    }
    for (uint32_t axis = facts_.num_outer; axis <= last; ++axis) out_.Close();
    return absl::OkStatus();
  }

  absl::Status ScanState(ScalarId id) {
    Accumulator(id, body_.IsLanes(id) ? kColumnStrip : 1);
    return absl::OkStatus();
  }

  absl::Status PointNodes(const std::vector<ScalarId>& nodes, bool lanes) {
    for (ScalarId id : nodes) {
      if (body_.IsLanes(id) != lanes) continue;
      if (nest_.body[id].op != ScalarOp::kScan) {
        RETURN_IF_ERROR(body_.Node(id));
        continue;
      }
      RETURN_IF_ERROR(ColumnSteps({id}, lanes));
      body_.SetText(id,
                    absl::StrCat("a", accumulator_[id], lanes ? "[u]" : ""));
    }
    return absl::OkStatus();
  }

  absl::Status ColumnSteps(const std::vector<ScalarId>& reduces, bool lanes) {
    for (ScalarId id : reduces) {
      if (body_.IsLanes(id) != lanes) continue;
      const ScalarNode& node = nest_.body[id];
      const std::string& n = accumulator_[id];
      const std::string at = lanes ? "[u]" : "";
      if (IsTuple(node.reduce)) {
        ASSIGN_OR_RETURN(const std::string step,
                         TupleStep(node, n, at, lanes, lanes ? ", m" : ""));
        out_.Line(step);
        continue;
      }
      const std::string a = absl::StrCat("a", n, at);
      ASSIGN_OR_RETURN(const std::string next,
                       CombineText(node.reduce, node.dtype, a,
                                   body_.Operand(node.args[0], lanes)));
      out_.Line(a, " = ", next, ";");
    }
    return absl::OkStatus();
  }

  CpuBody& body_;
  const KernelTiling& tiling_;
  const bool by_rows_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const KernelPasses passes_;
  // Of each reduction: the number in the names of its accumulators.
  std::vector<std::string> accumulator_ =
      std::vector<std::string>(nest_.body.size());
};

}  // namespace

absl::Status WriteCpuRows(CpuBody& body, const KernelTiling& tiling) {
  return ReductionWriter(body, tiling, true).Rows();
}

absl::Status WriteCpuColumns(CpuBody& body) {
  return ReductionWriter(body, KernelTiling(), false).Columns();
}

}  // namespace kiln

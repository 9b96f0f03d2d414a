#include "compiler/codegen/cpu_reductions.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu_accumulators.h"
#include "compiler/schedule/kernel_passes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class ReductionWriter {
 public:
  ReductionWriter(CpuBody& body, const CpuRows& variant)
      : ReductionWriter(body, variant.accumulators, variant.block, true) {}
  ReductionWriter(CpuBody& body, const CpuColumns& variant)
      : ReductionWriter(body, variant.strip, variant.block, false) {
    unroll_ = variant.unroll;
  }

  absl::Status Rows() {
    for (const KernelPass& pass : passes_.passes) {
      RETURN_IF_ERROR(body_.Nodes(pass.before, false));
      const int count = SideBySide(pass);
      StartBlocks(pass);
      for (ScalarId id : pass.reduces) sums_.Declare(id, count, blocks_);
      RETURN_IF_ERROR(RowPass(pass));
      for (ScalarId id : pass.reduces) RETURN_IF_ERROR(sums_.AcrossLanes(id));
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
      StartBlocks(pass);
      for (ScalarId id : pass.reduces)
        sums_.Declare(id, body_.IsLanes(id) ? side_by_side_ : 1, blocks_);
      RETURN_IF_ERROR(ColumnPass(pass));
      for (ScalarId id : pass.reduces) sums_.Columns(id);
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
  // By rows `side_by_side` is how many vectors of a row, else of a strip.
  ReductionWriter(CpuBody& body, int side_by_side, int block, bool by_rows)
      : body_(body),
        side_by_side_(side_by_side),
        block_(block),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        sums_(body, by_rows),
        passes_(PlanPasses(nest_, facts_, {})) {}

  // --- Blocks of a float sum over many points, along all reduced axes. A block
  // ends where a span of the last axis does.

  struct Span {
    std::string from, to;  // along the last axis
    bool is_part = false;
  };

  bool IsOneBlock(const SymExpr& points) const {
    return body_.shapes.Range(points).max <= block_;
  }
  bool IsCounted() const { return facts_.num_axes - facts_.num_outer > 1; }

  // A pass sums in blocks if it may add more points than the variant's block has.
  void StartBlocks(const KernelPass& pass) {
    SymExpr points = 1;
    for (uint32_t axis = facts_.num_outer; axis < facts_.num_axes; ++axis)
      points = points * facts_.extents[axis];
    blocks_ = !IsOneBlock(points) &&
              std::any_of(pass.reduces.begin(), pass.reduces.end(),
                          [&](ScalarId id) { return sums_.IsFloatSum(id); });
    if (!blocks_ || !IsCounted()) return;
    counter_ = body_.Fresh("n");
    out_.Line("long long ", counter_, " = 0;");
  }

  Span OpenBlock() {
    const SymExpr& extent = facts_.extents[facts_.num_axes - 1];
    const std::string whole = body_.Index(extent);
    if (!blocks_ || IsOneBlock(extent)) return {"0", whole, false};
    out_.Open("for (long long part = 0; part < ", whole, "; part += ", block_,
              ")");
    out_.Line("const long long part_end = k_least(part + ", block_, ", ", whole,
              ");");
    return {"part", "part_end", true};
  }

  void CloseBlock(const KernelPass& pass, const Span& span) {
    if (blocks_ && IsCounted()) {
      out_.Line(counter_, " += ", span.to, " - ", span.from, ";");
      out_.Open("if (", counter_, " >= ", block_, ")");
      for (ScalarId id : pass.reduces) sums_.EndBlock(id);
      out_.Line(counter_, " = 0;");
      out_.Close();
    } else if (span.is_part) {
      for (ScalarId id : pass.reduces) sums_.EndBlock(id);
    }
    if (span.is_part) out_.Close();
  }

  // After all spans: the block that is not full.
  void EndBlocks(const KernelPass& pass) {
    if (!blocks_ || !IsCounted()) return;
    for (ScalarId id : pass.reduces) sums_.EndBlock(id);
  }

  // --- Rows: the vector runs along the last reduced axis.

  absl::Status RowPass(const KernelPass& pass) {
    const uint32_t last = facts_.num_axes - 1;
    for (uint32_t axis = facts_.num_outer; axis < last; ++axis) OpenLoop(axis);
    RETURN_IF_ERROR(body_.Nodes(pass.inside, false));
    RETURN_IF_ERROR(body_.Stores(pass.stores, false));
    const Span block = OpenBlock();
    RETURN_IF_ERROR(RowSpan(pass, block));
    CloseBlock(pass, block);
    for (uint32_t axis = facts_.num_outer; axis < last; ++axis) out_.Close();
    EndBlocks(pass);
    return absl::OkStatus();
  }

  // Vectors of the row that a pass reduces side by side, so that one addition
  // need not wait for the one before.
  int SideBySide(const KernelPass& pass) const {
    return pass.reduces.empty() ? 1 : side_by_side_;
  }

  // A span of the row: groups of vectors, then what is left.
  absl::Status RowSpan(const KernelPass& pass, const Span& span) {
    const auto& [from, to, is_part] = span;
    const int count = SideBySide(pass);
    if (count == 1) {
      body_.OpenLanes(from, to);
      RETURN_IF_ERROR(RowVector(pass, ""));
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
    RETURN_IF_ERROR(RowVector(pass, "[u]"));
    out_.Close();
    out_.Close();
    body_.OpenLanes("r", to);
    RETURN_IF_ERROR(RowVector(pass, "[0]"));
    out_.Close();
    out_.Close();
    return absl::OkStatus();
  }

  absl::Status RowVector(const KernelPass& pass, const std::string& at) {
    RETURN_IF_ERROR(body_.Nodes(pass.inside, true));
    for (ScalarId id : pass.reduces) RETURN_IF_ERROR(sums_.RowStep(id, at));
    return body_.Stores(pass.stores, true);
  }

  void OpenLoop(uint32_t axis) { OpenLoop(axis, {"0", body_.Extent(axis)}); }
  void OpenLoop(uint32_t axis, const Span& span) {
    const std::string i = CpuBody::AxisName(axis);
    out_.Open("for (long long ", i, " = ", span.from, "; ", i, " < ", span.to,
              "; ++", i, ")");
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
                side_by_side_, "];");
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
      if (nest_.body[id].op == ScalarOp::kScan)
        sums_.Declare(id, body_.IsLanes(id) ? side_by_side_ : 1, false);
    const Span block = OpenBlock();
    OpenLoop(last, block);
    RETURN_IF_ERROR(PointNodes(pass.inside, false));
    RETURN_IF_ERROR(body_.Stores(pass.stores, false));
    RETURN_IF_ERROR(ColumnSteps(pass.reduces, false));
    if (HasLanes()) {
      if (unroll_ > 1) out_.Line("#pragma GCC unroll ", unroll_);
      OpenStrip();
      RETURN_IF_ERROR(PointNodes(pass.inside, true));
      RETURN_IF_ERROR(ColumnSteps(pass.reduces, true));
      RETURN_IF_ERROR(body_.Stores(pass.stores, true));
      out_.Close();
    }
    out_.Close();
    CloseBlock(pass, block);
    for (uint32_t axis = facts_.num_outer; axis < last; ++axis) out_.Close();
    EndBlocks(pass);
    return absl::OkStatus();
  }

  absl::Status PointNodes(const std::vector<ScalarId>& nodes, bool lanes) {
    for (ScalarId id : nodes) {
      if (body_.IsLanes(id) != lanes) continue;
      if (nest_.body[id].op != ScalarOp::kScan) {
        RETURN_IF_ERROR(body_.Node(id));
        continue;
      }
      RETURN_IF_ERROR(sums_.ColumnStep(id, lanes));
      sums_.Running(id, lanes);
    }
    return absl::OkStatus();
  }

  absl::Status ColumnSteps(const std::vector<ScalarId>& reduces, bool lanes) {
    for (ScalarId id : reduces)
      if (body_.IsLanes(id) == lanes)
        RETURN_IF_ERROR(sums_.ColumnStep(id, lanes));
    return absl::OkStatus();
  }

  CpuBody& body_;
  const int side_by_side_;
  const int block_;  // CpuRows.block
  int unroll_ = 1;   // CpuColumns.unroll
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  CpuAccumulators sums_;
  const KernelPasses passes_;
  bool blocks_ = false;  // of the pass that is being written
  std::string counter_;  // of the points in the block
};

}  // namespace

absl::Status WriteCpuRows(CpuBody& body, const CpuRows& variant) {
  return ReductionWriter(body, variant).Rows();
}

absl::Status WriteCpuColumns(CpuBody& body, const CpuColumns& variant) {
  return ReductionWriter(body, variant).Columns();
}

}  // namespace kiln

#include "compiler/codegen/cpu_codegen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu_body.h"
#include "compiler/codegen/kernel_passes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Neighbouring vectors that a reduction along columns works on at a time: one
// or two cache lines of a row.
constexpr int kColumnStrip = 4;
// Elements of the vector axis in one item of a pointwise kernel.
constexpr int64_t kPointwiseBlock = 4096;
// Rows of a tile: with 16 lanes or fewer a line that was read is used whole.
constexpr int64_t kTileRows = 64;
constexpr int64_t kTileColumns = 64;
// Elements worth a thread's while.
constexpr int64_t kGrainElements = 16384;
// Float sums longer than this are summed in two levels.
constexpr int64_t kSumBlock = 4096;

bool IsTuple(ReduceOp op) {
  return op == ReduceOp::kArgMax || op == ReduceOp::kArgMin;
}

class CpuKernelWriter {
 public:
  CpuKernelWriter(const PlannedKernel& kernel,
                  const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                  const NestFacts& facts)
      : tiling_(kernel.tiling),
        facts_(facts),
        nest_(kernel.nest),
        body_(kernel.nest, facts, buffers, shapes),
        out_(body_.out) {}

  absl::StatusOr<std::string> Run() {
    body_.Start();
    by_rows_ = tiling_.mapping == Mapping::kRow && facts_.reduced != 0 &&
               !facts_.has_scan;
    if (by_rows_) {
      body_.vector_axis = facts_.num_axes - 1;
    } else if (facts_.num_outer > 0) {
      body_.vector_axis = facts_.num_outer - 1;
    }
    passes_ = PlanPasses(nest_, facts_, BetweenPasses::kComputeAgain);
    out_.Open("static void ", kSymbolPlaceholder,
              "_part(void* context, long long begin, long long end)");
    Parameters();
    ChooseItems();
    out_.Open("for (long long w = begin; w < end; ++w)");
    RETURN_IF_ERROR(Item());
    out_.Close();
    out_.Close();
    Entry();
    return out_.Take();
  }

 private:
  void Parameters() {
    out_.Line("const KilnArguments& a = *(const KilnArguments*)context;");
    int buffers = 0, scalars = 0;
    std::vector<bool> written(body_.buffers.size(), false);
    for (const Store& store : nest_.stores) written[store.buffer] = true;
    for (const KernelParam& param : facts_.params) {
      switch (param.kind) {
        case KernelParam::Kind::kBuffer: {
          const absl::string_view type =
              CTypeName(body_.buffers[param.buffer].dtype);
          const char* constant = written[param.buffer] ? "" : "const ";
          out_.Line(constant, type, "* const ", body_.BufferName(param.buffer),
                    " = (", constant, type, "*)a.buffers[", buffers++, "];");
          break;
        }
        case KernelParam::Kind::kScalar:
          out_.Line("const long long s", scalars, " = a.scalars[", scalars,
                    "];");
          ++scalars;
          break;
        case KernelParam::Kind::kSeed:
          out_.Line("const long long seed = a.scalars[", scalars++, "];");
          break;
      }
    }
  }

  std::string Extent(uint32_t axis) const {
    return body_.Index(facts_.extents[axis]);
  }

  // Cuts the outer axes into items: each a point of all outer axes but the
  // vector axis, of which it takes a block; a tile takes a block of two axes.
  void ChooseItems() {
    if (by_rows_ || body_.vector_axis == CpuBody::kNoAxis) {
      block_ = 0;
    } else if (facts_.reduced != 0) {
      block_ = -kColumnStrip;  // in vectors
    } else {
      block_ = IsTile() ? kTileColumns : kPointwiseBlock;
    }
  }

  bool IsTile() const {
    return tiling_.mapping == Mapping::kTile2d && tiling_.tile_axis >= 0 &&
           facts_.reduced == 0 &&
           tiling_.tile_axis + 1 < static_cast<int>(facts_.num_outer);
  }

  // Elements of the vector axis in an item, as text.
  std::string BlockText() const {
    return block_ < 0 ? absl::StrCat("(", -block_, " * K_LANES)")
                      : absl::StrCat(block_);
  }

  // "number of items along this outer axis", as text.
  std::string ItemsAlong(uint32_t axis) const {
    if (block_ != 0 && axis == body_.vector_axis)
      return absl::StrCat("k_ceildiv(", Extent(axis), ", ", BlockText(), ")");
    if (IsTile() && static_cast<int>(axis) == tiling_.tile_axis)
      return absl::StrCat("k_ceildiv(", Extent(axis), ", ", kTileRows, ")");
    return Extent(axis);
  }

  // The item's outer axes from its number `w`, last axis fastest.
  void SplitItem() {
    if (facts_.num_outer == 0) return;
    out_.Line("long long q = w;");
    for (uint32_t axis = facts_.num_outer; axis-- > 0;) {
      const std::string part =
          axis == 0 ? "q" : absl::StrCat("q % ", ItemsAlong(axis));
      const std::string name = CpuBody::AxisName(axis);
      if (block_ != 0 && axis == body_.vector_axis) {
        Range("v", part, BlockText(), Extent(axis));
      } else if (IsTile() && static_cast<int>(axis) == tiling_.tile_axis) {
        Range("y", part, absl::StrCat(kTileRows), Extent(axis));
      } else {
        out_.Line("const long long ", name, " = ", part, ";");
      }
      if (axis > 0) out_.Line("q /= ", ItemsAlong(axis), ";");
    }
  }

  void Range(const char* name, const std::string& part,
             const std::string& block, const std::string& extent) {
    out_.Line("const long long ", name, "0 = (", part, ") * ", block, ";");
    out_.Line("const long long ", name, "1 = k_least(", name, "0 + ", block,
              ", ", extent, ");");
  }

  absl::Status Item() {
    SplitItem();
    if (by_rows_) return Rows();
    if (facts_.reduced != 0) return Columns();
    return Points();
  }

  // Nodes that do not move with the vector axis, then the others.
  absl::Status Nodes(const std::vector<ScalarId>& nodes, bool lanes) {
    for (ScalarId id : nodes)
      if (body_.IsLanes(id) == lanes) RETURN_IF_ERROR(body_.Node(id));
    return absl::OkStatus();
  }
  absl::Status Stores(const std::vector<uint32_t>& stores, bool lanes) {
    for (uint32_t s : stores)
      if (body_.IsLanes(facts_.store_axes[s]) == lanes)
        RETURN_IF_ERROR(body_.Store(s));
    return absl::OkStatus();
  }

  // for (i<v> = from; < to) { m = ... }
  void OpenLanes(const std::string& from, const std::string& to) {
    const std::string i = CpuBody::AxisName(body_.vector_axis);
    out_.Open("for (long long ", i, " = ", from, "; ", i, " < ", to, "; ", i,
              " += K_LANES)");
    out_.Line("const int m = (int)k_least(", to, " - ", i, ", K_LANES);");
  }

  absl::Status Points() {
    const bool tile = IsTile();
    if (tile) {
      const std::string i = CpuBody::AxisName(tiling_.tile_axis);
      out_.Open("for (long long ", i, " = y0; ", i, " < y1; ++", i, ")");
    }
    RETURN_IF_ERROR(Nodes(passes_.last, false));
    if (body_.vector_axis != CpuBody::kNoAxis) {
      OpenLanes("v0", "v1");
      RETURN_IF_ERROR(Nodes(passes_.last, true));
      RETURN_IF_ERROR(Stores(passes_.last_stores, true));
      out_.Close();
    }
    // What does not move with the vector axis is the same for all its points.
    if (HasStillStores() && body_.vector_axis != CpuBody::kNoAxis)
      out_.Open("if (v0 == 0)");
    RETURN_IF_ERROR(Stores(passes_.last_stores, false));
    if (HasStillStores() && body_.vector_axis != CpuBody::kNoAxis) out_.Close();
    if (tile) out_.Close();
    return absl::OkStatus();
  }

  bool HasStillStores() const {
    return std::any_of(
        passes_.last_stores.begin(), passes_.last_stores.end(),
        [&](uint32_t s) { return !body_.IsLanes(facts_.store_axes[s]); });
  }

  // --- Rows: the vector runs along the last reduced axis.

  absl::Status Rows() {
    for (const KernelPass& pass : passes_.passes) {
      RETURN_IF_ERROR(Nodes(pass.before, false));
      for (ScalarId id : pass.reduces) Accumulator(id, "");
      RETURN_IF_ERROR(RowPass(pass));
      for (ScalarId id : pass.reduces) RETURN_IF_ERROR(AcrossLanes(id));
    }
    RETURN_IF_ERROR(Nodes(passes_.last, false));
    return Stores(passes_.last_stores, false);
  }

  absl::Status RowPass(const KernelPass& pass) {
    const uint32_t last = facts_.num_axes - 1;
    for (uint32_t axis = facts_.num_outer; axis < last; ++axis) OpenLoop(axis);
    RETURN_IF_ERROR(Nodes(pass.inside, false));
    RETURN_IF_ERROR(Stores(pass.stores, false));
    const bool blocked = NeedsBlocks(pass);
    if (blocked) {
      out_.Open("for (long long b0 = 0; b0 < ", Extent(last),
                "; b0 += ", kSumBlock, ")");
      out_.Line("const long long b1 = k_least(b0 + ", kSumBlock, ", ",
                Extent(last), ");");
      for (ScalarId id : pass.reduces)
        if (IsFloatSum(id))
          out_.Line(LaneTypeName(nest_.body[id].dtype), " b", accumulator_[id],
                    " = {};");
    }
    OpenLanes(blocked ? "b0" : "0", blocked ? "b1" : Extent(last));
    RETURN_IF_ERROR(Nodes(pass.inside, true));
    for (ScalarId id : pass.reduces)
      RETURN_IF_ERROR(RowStep(id, blocked && IsFloatSum(id)));
    RETURN_IF_ERROR(Stores(pass.stores, true));
    out_.Close();
    if (blocked) {
      for (ScalarId id : pass.reduces)
        if (IsFloatSum(id))
          out_.Line("a", accumulator_[id], " = a", accumulator_[id], " + b",
                    accumulator_[id], ";");
      out_.Close();
    }
    for (uint32_t axis = facts_.num_outer; axis < last; ++axis) out_.Close();
    return absl::OkStatus();
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
    out_.Open("for (long long ", i, " = 0; ", i, " < ", Extent(axis), "; ++", i,
              ")");
  }

  // Declares a<n> (and its index j<n>) with the identity; `count` as "[4]".
  void Accumulator(ScalarId id, const std::string& count) {
    const ScalarNode& node = nest_.body[id];
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
      out_.Open("for (int u = 0; u < ", kColumnStrip, "; ++u)");
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

  absl::Status RowStep(ScalarId id, bool into_block) {
    const ScalarNode& node = nest_.body[id];
    const std::string& n = accumulator_[id];
    if (IsTuple(node.reduce)) {
      ASSIGN_OR_RETURN(const std::string step,
                       TupleStep(node, n, "", true, ", m"));
      out_.Line(step);
      return absl::OkStatus();
    }
    const std::string a = absl::StrCat(into_block ? "b" : "a", n);
    ASSIGN_OR_RETURN(const std::string next,
                     CombineText(node.reduce, node.dtype, a,
                                 body_.Operand(node.args[0], true)));
    out_.Line(a, " = k_keep(m, ", next, ", ", a, ");");
    return absl::OkStatus();
  }

  // From one value a lane to one value, in a fixed tree.
  absl::Status AcrossLanes(ScalarId id) {
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
    ASSIGN_OR_RETURN(
        const std::string next,
        CombineText(node.reduce, node.dtype, absl::StrCat("a", n, "[l]"),
                    absl::StrCat("a", n, "[l + h]")));
    out_.Line("for (int h = K_LANES / 2; h > 0; h /= 2)");
    out_.Line("  for (int l = 0; l < h; ++l) a", n, "[l] = ", next, ";");
    out_.Line("const ", CTypeName(node.dtype), " ", name, " = a", n, "[0]",
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

  absl::Status Columns() {
    if (HasLanes())
      out_.Line("const int strip = (int)k_ceildiv(v1 - v0, K_LANES);");
    for (const KernelPass& pass : passes_.passes) {
      RETURN_IF_ERROR(Nodes(pass.before, false));
      RETURN_IF_ERROR(StripValues(pass.before));
      for (ScalarId id : pass.reduces)
        Accumulator(
            id, body_.IsLanes(id) ? absl::StrCat("[", kColumnStrip, "]") : "");
      RETURN_IF_ERROR(ColumnPass(pass));
      for (ScalarId id : pass.reduces) {
        const bool lanes = body_.IsLanes(id);
        const char* at = lanes ? "[u]" : "";
        SetTuple(id, absl::StrCat("a", accumulator_[id], at),
                 absl::StrCat("j", accumulator_[id], at), lanes);
      }
    }
    RETURN_IF_ERROR(Nodes(passes_.last, false));
    if (HasLanes()) {
      OpenStrip();
      RETURN_IF_ERROR(Nodes(passes_.last, true));
      RETURN_IF_ERROR(Stores(passes_.last_stores, true));
      out_.Close();
      if (HasStillStores()) out_.Open("if (v0 == 0)");
    }
    RETURN_IF_ERROR(Stores(passes_.last_stores, false));
    if (HasLanes() && HasStillStores()) out_.Close();
    return absl::OkStatus();
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
    RETURN_IF_ERROR(Stores(pass.stores, false));
    RETURN_IF_ERROR(ColumnSteps(pass.reduces, false));
    if (HasLanes()) {
      OpenStrip();
      RETURN_IF_ERROR(PointNodes(pass.inside, true));
      RETURN_IF_ERROR(ColumnSteps(pass.reduces, true));
      RETURN_IF_ERROR(Stores(pass.stores, true));
      out_.Close();
    }
    for (uint32_t axis = facts_.num_outer; axis <= last; ++axis) out_.Close();
    return absl::OkStatus();
  }

  absl::Status ScanState(ScalarId id) {
    Accumulator(id,
                body_.IsLanes(id) ? absl::StrCat("[", kColumnStrip, "]") : "");
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

  // --- The entry: counts items and shares them out.

  void Entry() {
    out_.Open("extern \"C\" __attribute__((visibility(\"default\"))) void ",
              kSymbolPlaceholder,
              "(void* const* buffers, const long long* scalars, "
              "const KilnCpuRuntime* runtime)");
    out_.Line("KilnArguments a = {buffers, scalars};");
    int scalars = 0;
    for (const KernelParam& param : facts_.params)
      if (param.kind == KernelParam::Kind::kScalar) {
        out_.Line("const long long s", scalars, " = scalars[", scalars,
                  "]; (void)s", scalars, ";");
        ++scalars;
      }
    std::string items = "1";
    for (uint32_t axis = 0; axis < facts_.num_outer; ++axis)
      absl::StrAppend(&items, " * ", ItemsAlong(axis));
    out_.Line("const long long items = ", items, ";");
    // Cells that several items may add to belong to one thread.
    if (facts_.has_atomic) {
      out_.Line(kSymbolPlaceholder, "_part(&a, 0, items);");
    } else {
      std::string points = "1";
      for (uint32_t axis = 0; axis < facts_.num_axes; ++axis)
        absl::StrAppend(&points, " * ", Extent(axis));
      out_.Line("const long long points = ", points, ";");
      out_.Line("k_share(runtime, items, points, ", kGrainElements, ", ",
                kSymbolPlaceholder, "_part, &a);");
    }
    out_.Close();
  }

  const KernelTiling tiling_;
  const NestFacts& facts_;
  const LoopNest& nest_;
  CpuBody body_;
  CWriter& out_;
  KernelPasses passes_;
  bool by_rows_ = false;
  int64_t block_ =
      0;  // of the vector axis: elements, or minus vectors; 0: none
  // Of each reduction: the number in the names of its accumulators.
  std::vector<std::string> accumulator_ =
      std::vector<std::string>(nest_.body.size());
};

}  // namespace

absl::StatusOr<std::string> WriteCpuKernel(const PlannedKernel& kernel,
                                           const std::vector<Buffer>& buffers,
                                           const ShapeEnv& shapes,
                                           NestFacts facts) {
  facts.index32 = false;
  return CpuKernelWriter(kernel, buffers, shapes, facts).Run();
}

}  // namespace kiln

#include "compiler/codegen/cuda_codegen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu_codegen.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/codegen/cuda_tiles.h"
#include "compiler/codegen/kernel_passes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Elements of a row that a thread may keep between passes. More than this
// spills registers and, written out, takes NVRTC seconds.
constexpr int64_t kMaxKept = 32;

// The part of a kernel's iteration that one thread takes, by mapping.
class CudaKernelWriter {
 public:
  CudaKernelWriter(const PlannedKernel& kernel,
                   const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                   const NestFacts& facts, KernelSource& source)
      : tiling_(kernel.tiling),
        nest_(kernel.nest),
        facts_(facts),
        source_(source),
        body_(kernel.nest, facts, buffers, shapes),
        out_(body_.out) {}

  absl::Status Run() {
    ChooseShape();
    passes_ =
        PlanPasses(nest_, facts_,
                   keep_ ? BetweenPasses::kKeep : BetweenPasses::kComputeAgain);
    Header();
    switch (mapping_) {
      case Mapping::kPointwise:
        RETURN_IF_ERROR(Points());
        break;
      case Mapping::kTile2d:
        RETURN_IF_ERROR(
            WriteCudaTiles(body_, tiling_.tile_axis, passes_, grid_));
        break;
      case Mapping::kRow:
        RETURN_IF_ERROR(Rows());
        break;
      case Mapping::kColumn:
        RETURN_IF_ERROR(Columns());
        break;
      case Mapping::kSerial:
        RETURN_IF_ERROR(Serial());
        break;
    }
    out_.Close();
    source_.text = out_.Take();
    source_.block[0] = static_cast<uint32_t>(threads_);
    source_.grid = {grid_, 1, 1};
    return absl::OkStatus();
  }

 private:
  // --- What is decided before the first line.

  void ChooseShape() {
    mapping_ = tiling_.mapping;
    const bool reduces = facts_.reduced != 0;
    if (!reduces) {
      const bool tiles =
          mapping_ == Mapping::kTile2d && WantsTiles(body_, tiling_.tile_axis);
      mapping_ = tiles ? Mapping::kTile2d : Mapping::kPointwise;
    }
    if (reduces && mapping_ != Mapping::kRow && mapping_ != Mapping::kColumn)
      mapping_ = Mapping::kSerial;
    if (facts_.has_scan) mapping_ = Mapping::kSerial;
    threads_ = tiling_.threads > 0 ? tiling_.threads : 256;
    for (uint32_t a = 0; a < facts_.num_axes; ++a) {
      SymExpr& total = a < facts_.num_outer ? outer_points_ : reduced_points_;
      total = total * facts_.extents[a];
    }
    body_.width = std::max(1, tiling_.vector_width);
    if (mapping_ == Mapping::kRow) {
      body_.vector_axis = facts_.num_axes - 1;
    } else if (facts_.num_outer > 0 && mapping_ != Mapping::kSerial) {
      body_.vector_axis = facts_.num_outer - 1;
    }
    if (body_.vector_axis == CudaBody::kNoAxis) body_.width = 1;
    if (mapping_ == Mapping::kTile2d) {
      body_.width = 1;
      threads_ = kTileThreads;
    }
    if (body_.width > 1 &&
        !IsMultiple(facts_.extents[body_.vector_axis], body_.width)) {
      // A group may be cut off at the end of memory, not at the end of a row.
      body_.cut = mapping_ == Mapping::kPointwise && facts_.num_outer == 1;
      if (!body_.cut) body_.width = 1;
    }
    per_row_ = std::max(1, threads_ / std::max(1, tiling_.rows_per_block));
    // Shuffles want powers of two, whole warps beyond one.
    while ((per_row_ & (per_row_ - 1)) != 0) per_row_ &= per_row_ - 1;
    rows_ = std::max(1, tiling_.rows_per_block);
    if (mapping_ == Mapping::kRow || mapping_ == Mapping::kColumn)
      threads_ = per_row_ * rows_;
    keep_ = mapping_ == Mapping::kRow && tiling_.persistent &&
            reduced_points_.is_constant() &&
            GroupsAThread() * body_.width <= kMaxKept;
  }

  int64_t GroupsAThread() const {
    const int64_t step = int64_t{per_row_} * body_.width;
    return (reduced_points_.constant() + step - 1) / step;
  }

  void Header() {
    std::string params;
    std::vector<bool> written(body_.buffers.size(), false);
    for (const Store& store : nest_.stores) written[store.buffer] = true;
    int scalars = 0;
    for (const KernelParam& param : facts_.params) {
      absl::StrAppend(&params, params.empty() ? "" : ", ");
      switch (param.kind) {
        case KernelParam::Kind::kBuffer:
          absl::StrAppend(&params, written[param.buffer] ? "" : "const ",
                          CTypeName(body_.buffers[param.buffer].dtype), "* ",
                          body_.BufferName(param.buffer));
          break;
        case KernelParam::Kind::kScalar:
          absl::StrAppend(&params, "long long n", scalars++);
          break;
        case KernelParam::Kind::kSeed:
          absl::StrAppend(&params, "unsigned long long n", scalars);
          break;
      }
    }
    out_.Open("extern \"C\" __global__ void __launch_bounds__(", threads_, ") ",
              kSymbolPlaceholder, "(", params, ")");
    for (int s = 0; s < scalars; ++s)
      out_.Line("const ", body_.index_type(), " s", s, " = (",
                body_.index_type(), ")n", s, ";");
    if (facts_.uses_seed)
      out_.Line("const long long seed = (long long)n", scalars, ";");
  }

  std::string Number(const SymExpr& e) const { return body_.Index(e); }

  // `name` is a point's number among the axes [first, last); the last axis
  // fastest.
  void SplitPoint(const std::string& name, uint32_t first, uint32_t last) {
    if (first == last) return;
    const char* type = body_.index_type();
    if (last - first == 1) {
      out_.Line("const ", type, " ", CudaBody::AxisName(first), " = ", name,
                ";");
      return;
    }
    const std::string unsigned_type = absl::StrCat("unsigned ", type);
    const std::string q = body_.Fresh("q");
    out_.Line(unsigned_type, " ", q, " = (", unsigned_type, ")", name, ";");
    for (uint32_t axis = last; axis-- > first;) {
      const std::string extent =
          absl::StrCat("(", unsigned_type, ")", Number(facts_.extents[axis]));
      out_.Line("const ", type, " ", CudaBody::AxisName(axis), " = (", type,
                ")(", q, axis == first ? "" : absl::StrCat(" % ", extent),
                ");");
      if (axis > first) out_.Line(q, " /= ", extent, ";");
    }
  }

  std::string GlobalThread() const {
    return absl::StrCat("((", body_.index_type(), ")blockIdx.x * ", threads_,
                        " + (int)threadIdx.x)");
  }

  static absl::Status Nothing(bool) { return absl::OkStatus(); }

  // --- Pointwise: a group a thread.
  absl::Status Points() {
    const std::string n = Number(outer_points_);
    const char* type = body_.index_type();
    out_.Line("const ", type, " p = ", GlobalThread(),
              body_.width > 1 ? absl::StrCat(" * ", body_.width) : "", ";");
    out_.Line("if (p >= ", n, ") return;");
    if (body_.cut)
      out_.Line("const int m = ", n, " - p < ", body_.width, " ? (int)(", n,
                " - p) : ", body_.width, ";");
    SplitPoint("p", 0, facts_.num_outer);
    grid_ = CeilDiv(outer_points_, int64_t{threads_} * body_.width);
    return body_.WriteGroup({passes_.last, passes_.last_stores, &Nothing, ""});
  }

  // --- Reductions.
  absl::Status Declare(const std::vector<ScalarId>& reduces,
                       const std::string& count) {
    for (ScalarId id : reduces) {
      const ScalarNode& node = nest_.body[id];
      if (node.reduce == ReduceOp::kWelford)
        return MakeError(ErrorReason::kUnsupportedOp, "reduction welford");
      accumulator_[id] = body_.Fresh("a");
      std::string type(CTypeName(node.dtype));
      std::string start = IdentityText(node.reduce, node.dtype);
      if (IsTupleReduction(node.reduce)) {
        type = absl::StrCat("k_pair<", type, ">");
        start = absl::StrCat("{", start, ", 9223372036854775807ll}");
      }
      if (count.empty()) {
        out_.Line(type, " ", accumulator_[id], " = ", start, ";");
      } else {
        out_.Line(type, " ", accumulator_[id], count, ";");
        out_.Line("for (int e = 0; e < ", body_.width, "; ++e) ",
                  accumulator_[id], "[e] = ", start, ";");
      }
    }
    return absl::OkStatus();
  }

  // `at` is "" or "[e]".
  absl::Status Step(ScalarId id, const std::string& at) {
    const ScalarNode& node = nest_.body[id];
    const std::string a = absl::StrCat(accumulator_[id], at);
    if (IsTupleReduction(node.reduce)) {
      std::string position;
      if (node.args.size() > 1) {
        position = body_.Text(node.args[1]);
      } else {
        position = body_.Index(body_.ReducedPosition());
        if (mapping_ == Mapping::kRow && body_.width > 1)
          absl::StrAppend(&position, " + e");
      }
      out_.Line(TupleStepName(node), "(", a, ".value, ", a, ".index, ",
                body_.Text(node.args[0]), ", ", position, ");");
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(
        const std::string next,
        CombineText(node.reduce, node.dtype, a, body_.Text(node.args[0])));
    out_.Line(a, " = ", next, ";");
    return absl::OkStatus();
  }

  // Names the members for those that read them.
  void Name(ScalarId id, const std::string& at) {
    const std::string a = absl::StrCat(accumulator_[id], at);
    const bool tuple = IsTupleReduction(nest_.body[id].reduce);
    body_.SetText(id, tuple ? absl::StrCat(a, ".value") : a);
    for (ScalarId other = id + 1; other < nest_.body.size(); ++other) {
      const ScalarNode& node = nest_.body[other];
      if (node.op != ScalarOp::kReduceResult || node.args[0] != id) continue;
      body_.SetText(other,
                    absl::StrCat(a, node.number.i == 0 ? ".value" : ".index"));
    }
  }

  // --- Rows: per_row_ threads on each, neighbours along the reduced axis.

  absl::Status Rows() {
    const char* type = body_.index_type();
    const std::string n = Number(outer_points_);
    out_.Line("const int t = (int)threadIdx.x % ", per_row_, ";");
    const bool guarded = rows_ > 1 && !IsMultiple(outer_points_, rows_);
    if (rows_ == 1) {
      out_.Line("const ", type, " row = (", type, ")blockIdx.x;");
    } else {
      out_.Line("const ", type, " block_row = (", type, ")blockIdx.x * ", rows_,
                " + (int)threadIdx.x / ", per_row_, ";");
      // A row too many does another row's work and writes nothing.
      if (guarded) out_.Line("const bool live = block_row < ", n, ";");
      out_.Line("const ", type,
                " row = ", guarded ? "live ? block_row : 0" : "block_row", ";");
    }
    live_ = guarded ? "live" : "";
    SplitPoint("row", 0, facts_.num_outer);
    grid_ = CeilDiv(outer_points_, int64_t{rows_});
    DeclareKept();
    for (const KernelPass& pass : passes_.passes) {
      for (ScalarId id : pass.before) RETURN_IF_ERROR(body_.Node(id));
      RETURN_IF_ERROR(Declare(pass.reduces, ""));
      RETURN_IF_ERROR(RowPass(pass));
      for (ScalarId id : pass.reduces) {
        ASSIGN_OR_RETURN(const std::string join, JoinerText(nest_.body[id]));
        out_.Line(accumulator_[id], " = k_across<", per_row_, ", ", threads_,
                  ">(", accumulator_[id], ", ", join, ");");
        Name(id, "");
      }
    }
    for (ScalarId id : passes_.last) RETURN_IF_ERROR(body_.Node(id));
    return StoreOnce("t == 0");
  }

  // Stores that do not move with the reduced axes, by the threads that
  // `condition` picks.
  absl::Status StoreOnce(const std::string& condition) {
    const int width = std::exchange(body_.width, 1);
    std::string full = condition;
    if (!live_.empty()) absl::StrAppend(&full, " && ", live_);
    static const std::vector<ScalarId> kNone;
    const absl::Status status =
        body_.WriteGroup({kNone, passes_.last_stores, &Nothing, full});
    body_.width = width;
    return status;
  }

  void DeclareKept() {
    if (!keep_) return;
    for (const KernelPass& pass : passes_.passes)
      for (ScalarId id : pass.keeps) {
        kept_[id] = body_.Fresh("c");
        out_.Line(CTypeName(nest_.body[id].dtype), " ", kept_[id], "[",
                  GroupsAThread() * body_.width, "];");
      }
  }

  std::string KeptCell(ScalarId id) const {
    if (body_.width == 1) return absl::StrCat(kept_[id], "[k]");
    // What all elements of a group share stands once, in its first cell.
    return absl::StrCat(kept_[id], "[k * ", body_.width,
                        body_.IsLanes(id) ? " + e]" : "]");
  }

  absl::Status RowPass(const KernelPass& pass) {
    const char* type = body_.index_type();
    const std::string n = Number(reduced_points_);
    const int64_t step = int64_t{per_row_} * body_.width;
    bool guarded = false;
    const std::string times =
        body_.width > 1 ? absl::StrCat(" * ", body_.width) : "";
    if (keep_) {
      out_.Line("#pragma unroll");
      out_.Open("for (int k = 0; k < ", GroupsAThread(), "; ++k)");
      out_.Line("const ", type, " r = (k * ", per_row_, " + t)", times, ";");
      guarded = reduced_points_.constant() % step != 0;
      if (guarded) out_.Open("if (r < ", n, ")");
    } else {
      out_.Open("for (", type, " r = t", times, "; r < ", n, "; r += ", step,
                ")");
    }
    SplitPoint("r", facts_.num_outer, facts_.num_axes);
    for (ScalarId id : pass.kept) body_.SetText(id, KeptCell(id));
    const auto then = [&](bool lanes) -> absl::Status {
      for (ScalarId id : pass.keeps)
        if (body_.IsLanes(id) == lanes || (!lanes && body_.width == 1))
          out_.Line(KeptCell(id), " = ", body_.Text(id), ";");
      const bool here = lanes == (body_.width > 1);
      if (here)
        for (ScalarId id : pass.reduces) RETURN_IF_ERROR(Step(id, ""));
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(body_.WriteGroup({pass.inside, pass.stores, then, live_}));
    if (guarded) out_.Close();
    out_.Close();
    return absl::OkStatus();
  }

  // --- Columns: per_row_ threads side by side, rows_ threads down the reduced
  // axes, whose parts are joined in shared memory.

  absl::Status Columns() {
    const char* type = body_.index_type();
    const std::string n = Number(outer_points_);
    out_.Line("const int y = (int)threadIdx.x / ", per_row_, ";");
    out_.Line("const ", type, " column = ((", type, ")blockIdx.x * ", per_row_,
              " + (int)threadIdx.x % ", per_row_, ")",
              body_.width > 1 ? absl::StrCat(" * ", body_.width) : "", ";");
    out_.Line("const bool live = column < ", n, ";");
    out_.Line("const ", type, " p = live ? column : 0;");
    live_ = "live";
    SplitPoint("p", 0, facts_.num_outer);
    grid_ = CeilDiv(outer_points_, int64_t{per_row_} * body_.width);
    const std::string count = absl::StrCat("[", body_.width, "]");
    for (const KernelPass& pass : passes_.passes) {
      RETURN_IF_ERROR(ColumnValues(pass.before));
      RETURN_IF_ERROR(Declare(pass.reduces, count));
      out_.Open("for (", type, " r = y; r < ", Number(reduced_points_),
                "; r += ", rows_, ")");
      SplitPoint("r", facts_.num_outer, facts_.num_axes);
      const auto then = [&](bool lanes) -> absl::Status {
        if (lanes != (body_.width > 1)) return absl::OkStatus();
        for (ScalarId id : pass.reduces)
          RETURN_IF_ERROR(Step(id, body_.width > 1 ? "[e]" : "[0]"));
        return absl::OkStatus();
      };
      RETURN_IF_ERROR(
          body_.WriteGroup({pass.inside, pass.stores, then, live_}));
      out_.Close();
      for (ScalarId id : pass.reduces) {
        ASSIGN_OR_RETURN(const std::string join, JoinerText(nest_.body[id]));
        out_.Line("k_down<", per_row_, ", ", rows_, ">(", accumulator_[id],
                  ", ", join, ");");
        Name(id, body_.width > 1 ? "[e]" : "[0]");
      }
    }
    return body_.WriteGroup(
        {passes_.last, passes_.last_stores, &Nothing, "y == 0 && live"});
  }

  // Values of the columns themselves, once before a pass.
  absl::Status ColumnValues(const std::vector<ScalarId>& nodes) {
    std::vector<ScalarId> lanes;
    for (ScalarId id : nodes)
      if (body_.IsLanes(id)) lanes.push_back(id);
    std::vector<std::string> names;
    for (ScalarId id : lanes) {
      names.push_back(body_.Fresh("x"));
      out_.Line(CTypeName(nest_.body[id].dtype), " ", names.back(), "[",
                body_.width, "];");
    }
    if (lanes.empty()) {
      for (ScalarId id : nodes) RETURN_IF_ERROR(body_.Node(id));
      return absl::OkStatus();
    }
    const auto then = [&](bool in_loop) -> absl::Status {
      for (size_t k = 0; in_loop && k < lanes.size(); ++k)
        out_.Line(names[k], "[e] = ", body_.Text(lanes[k]), ";");
      return absl::OkStatus();
    };
    static const std::vector<uint32_t> kNone;
    RETURN_IF_ERROR(body_.WriteGroup({nodes, kNone, then, ""}));
    for (size_t k = 0; k < lanes.size(); ++k)
      body_.SetText(lanes[k], absl::StrCat(names[k], "[e]"));
    return absl::OkStatus();
  }

  // --- Serial: a thread an outer point.
  absl::Status Serial() {
    body_.width = 1;
    const char* type = body_.index_type();
    out_.Line("const ", type, " p = ", GlobalThread(), ";");
    out_.Line("if (p >= ", Number(outer_points_), ") return;");
    SplitPoint("p", 0, facts_.num_outer);
    grid_ = CeilDiv(outer_points_, int64_t{threads_});
    for (const KernelPass& pass : passes_.passes) {
      for (ScalarId id : pass.before) RETURN_IF_ERROR(body_.Node(id));
      RETURN_IF_ERROR(Declare(pass.reduces, ""));
      RETURN_IF_ERROR(SerialPass(pass));
      for (ScalarId id : pass.reduces) Name(id, "");
    }
    return body_.WriteGroup({passes_.last, passes_.last_stores, &Nothing, ""});
  }

  absl::Status SerialPass(const KernelPass& pass) {
    const uint32_t last = facts_.num_axes - 1;
    for (uint32_t axis = facts_.num_outer; axis <= last; ++axis) {
      if (axis == last) {
        std::vector<ScalarId> scans;
        for (ScalarId id : pass.inside)
          if (nest_.body[id].op == ScalarOp::kScan) scans.push_back(id);
        RETURN_IF_ERROR(Declare(scans, ""));
      }
      const std::string i = CudaBody::AxisName(axis);
      out_.Open("for (", body_.index_type(), " ", i, " = 0; ", i, " < ",
                Number(facts_.extents[axis]), "; ++", i, ")");
    }
    for (ScalarId id : pass.inside) {
      if (nest_.body[id].op != ScalarOp::kScan) {
        RETURN_IF_ERROR(body_.Node(id));
        continue;
      }
      RETURN_IF_ERROR(Step(id, ""));
      body_.SetText(id, accumulator_[id]);
    }
    for (ScalarId id : pass.reduces) RETURN_IF_ERROR(Step(id, ""));
    static const std::vector<ScalarId> kNone;
    RETURN_IF_ERROR(body_.WriteGroup({kNone, pass.stores, &Nothing, ""}));
    for (uint32_t axis = facts_.num_outer; axis <= last; ++axis) out_.Close();
    return absl::OkStatus();
  }

  const KernelTiling tiling_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  KernelSource& source_;
  CudaBody body_;
  CWriter& out_;
  KernelPasses passes_;
  Mapping mapping_ = Mapping::kPointwise;
  int threads_ = 256;
  int per_row_ = 256;  // threads of a row, or side by side on columns
  int rows_ = 1;
  bool keep_ = false;
  std::string live_;  // condition that this thread's stores count; "": always
  SymExpr outer_points_ = 1;
  SymExpr reduced_points_ = 1;
  SymExpr grid_ = 1;
  std::vector<std::string> accumulator_ =
      std::vector<std::string>(nest_.body.size());
  std::vector<std::string> kept_ = std::vector<std::string>(nest_.body.size());
};

}  // namespace

absl::Status WriteCudaKernel(const PlannedKernel& kernel,
                             const std::vector<Buffer>& buffers,
                             const ShapeEnv& shapes, const Target& target,
                             NestFacts facts, KernelSource& source) {
  return CudaKernelWriter(kernel, buffers, shapes, facts, source).Run();
}

}  // namespace kiln

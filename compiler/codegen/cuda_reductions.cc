#include "compiler/codegen/cuda_reductions.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int kWarp = 32;

// A thread that adds more floats than this to one another adds them in blocks
// of so many, whose sums it adds as doubles: 2^24 ones are as far as a float32
// counts.
constexpr int64_t kSumBlock = 512;

class CudaReductionWriter {
 public:
  CudaReductionWriter(CudaBody& body, const CudaShape& shape,
                      const KernelPasses& passes)
      : shape_(shape),
        body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        passes_(passes) {}

  absl::StatusOr<CudaGrid> Run() {
    switch (shape_.mapping) {
      case Mapping::kRow:
        RETURN_IF_ERROR(Rows());
        return grid_;
      case Mapping::kColumn:
        RETURN_IF_ERROR(Columns());
        return grid_;
      case Mapping::kSerial:
        RETURN_IF_ERROR(Serial());
        return grid_;
      case Mapping::kPointwise:
      case Mapping::kTile2d:
        break;
    }
    return absl::InternalError("a reduction mapped as if there were none");
  }

 private:
  static absl::Status Nothing(bool) { return absl::OkStatus(); }
  std::string Number(const SymExpr& e) const { return body_.Index(e); }
  std::string Times() const {
    return body_.width > 1 ? absl::StrCat(" * ", body_.width) : "";
  }

  // One thread adds or multiplies all points there are: in doubles.
  bool IsWide(ScalarId id) const {
    const ScalarNode& node = nest_.body[id];
    return shape_.mapping == Mapping::kSerial &&
           node.dtype == DType::kFloat32 &&
           (node.reduce == ReduceOp::kSum || node.reduce == ReduceOp::kProd);
  }
  std::string WideText(ScalarId id) const {
    return IsWide(id) ? absl::StrCat("((float)", accumulator_[id], ")")
                      : accumulator_[id];
  }

  bool IsSum(ScalarId id) const {
    const ScalarNode& node = nest_.body[id];
    return node.reduce == ReduceOp::kSum && node.dtype == DType::kFloat32;
  }

  // "float b[2]; for (int e ...) b[e] = 0;", without the loop when `count` is
  // empty.
  void DeclareEach(absl::string_view type, const std::string& name,
                   const std::string& count, const std::string& start) {
    if (count.empty()) {
      out_.Line(type, " ", name, " = ", start, ";");
      return;
    }
    out_.Line(type, " ", name, count, ";");
    out_.Line("for (int e = 0; e < ", body_.width, "; ++e) ", name,
              "[e] = ", start, ";");
  }

  absl::Status Declare(const std::vector<ScalarId>& reduces,
                       const std::string& count) {
    for (ScalarId id : reduces) {
      const ScalarNode& node = nest_.body[id];
      accumulator_[id] = body_.Fresh("a");
      std::string type(CTypeName(node.dtype));
      std::string start = IdentityText(node.reduce, node.dtype);
      if (IsTupleReduction(node.reduce)) {
        type = absl::StrCat("k_pair<", type, ">");
        start = absl::StrCat("{", start, ", 9223372036854775807ll}");
      }
      if (IsWide(id)) type = "double";
      DeclareEach(type, accumulator_[id], count, start);
    }
    return absl::OkStatus();
  }

  // --- Float sums of many points a thread, in blocks.

  // Opens "for (r = first; r < limit; r += step)". When a thread takes many
  // points and a sum is among the reductions: in blocks.
  void OpenPoints(const KernelPass& pass, const std::string& first,
                  int64_t step, const std::string& count) {
    const char* type = body_.index_type();
    const std::string n = Number(shape_.reduced_points);
    blocks_.clear();
    const int64_t points = body_.shapes.Range(shape_.reduced_points).max;
    // Without `count` the elements side by side go into one sum.
    const int64_t block =
        step * (count.empty() ? kSumBlock / body_.width : kSumBlock);
    for (ScalarId id : pass.reduces)
      if (IsSum(id) && points > block) blocks_.push_back(id);
    if (blocks_.empty()) {
      out_.Open("for (", type, " r = ", first, "; r < ", n, "; r += ", step,
                ")");
      return;
    }
    for (ScalarId id : blocks_) {
      total_[id] = body_.Fresh("d");
      DeclareEach("double", total_[id], count, "0.0");
    }
    out_.Open("for (long long part = ", first, "; part < ", n,
              "; part += ", block, ")");
    out_.Line("const ", type, " part_end = (", type, ")(part + ", block, " < ",
              n, " ? part + ", block, " : ", n, ");");
    for (ScalarId id : blocks_)
      Each(count, absl::StrCat(accumulator_[id], "$ = 0.0f;"));
    out_.Open("for (", type, " r = (", type, ")part; r < part_end; r += ", step,
              ")");
  }

  void ClosePoints(const std::string& count) {
    out_.Close();
    if (blocks_.empty()) return;
    for (ScalarId id : blocks_)
      Each(count,
           absl::StrCat(total_[id], "$ += (double)", accumulator_[id], "$;"));
    out_.Close();
    for (ScalarId id : blocks_)
      Each(count,
           absl::StrCat(accumulator_[id], "$ = (float)", total_[id], "$;"));
  }

  // A statement for all elements side by side, `$` where their number goes.
  void Each(const std::string& count, const std::string& statement) {
    if (count.empty()) {
      out_.Line(absl::StrReplaceAll(statement, {{"$", ""}}));
    } else {
      out_.Line("for (int e = 0; e < ", body_.width, "; ++e) ",
                absl::StrReplaceAll(statement, {{"$", "[e]"}}));
    }
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
        if (shape_.mapping == Mapping::kRow && body_.width > 1)
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
    body_.SetText(id, tuple        ? absl::StrCat(a, ".value")
                      : IsWide(id) ? WideText(id)
                                   : a);
    for (ScalarId other = id + 1; other < nest_.body.size(); ++other) {
      const ScalarNode& node = nest_.body[other];
      if (node.op != ScalarOp::kReduceResult || node.args[0] != id) continue;
      body_.SetText(other,
                    absl::StrCat(a, node.number.i == 0 ? ".value" : ".index"));
    }
  }

  // --- Rows.

  absl::Status Rows() {
    const char* type = body_.index_type();
    const std::string n = Number(shape_.outer_points);
    const int rows = shape_.rows;
    out_.Line("const int t = (int)threadIdx.x % ", shape_.per_row, ";");
    OpenGridLoop(body_, "first",
                 absl::StrCat("(unsigned ", type, ")blockIdx.x",
                              rows == 1 ? "" : absl::StrCat(" * ", rows)),
                 n, rows);
    const bool guarded = rows > 1 && !IsMultiple(shape_.outer_points, rows);
    if (rows == 1) {
      out_.Line("const ", type, " row = (", type, ")first;");
    } else {
      out_.Line("const ", type, " block_row = (", type, ")first",
                " + (int)threadIdx.x / ", shape_.per_row, ";");
      // A row too many does another row's work and writes nothing.
      if (guarded) out_.Line("const bool live = block_row < ", n, ";");
      out_.Line("const ", type,
                " row = ", guarded ? "live ? block_row : 0" : "block_row", ";");
    }
    live_ = guarded ? "live" : "";
    SplitPoint(body_, "row", 0, facts_.num_outer);
    grid_ =
        LoopGrid(CeilDiv(shape_.outer_points, int64_t{rows}), shape_.threads);
    DeclareKept();
    for (const KernelPass& pass : passes_.passes) {
      for (ScalarId id : pass.before) RETURN_IF_ERROR(body_.Node(id));
      RETURN_IF_ERROR(Declare(pass.reduces, ""));
      RETURN_IF_ERROR(RowPass(pass));
      for (ScalarId id : pass.reduces) {
        ASSIGN_OR_RETURN(const std::string join, JoinerText(nest_.body[id]));
        out_.Line(accumulator_[id], " = k_across<", shape_.per_row, ", ",
                  shape_.threads, ">(", accumulator_[id], ", ", join, ");");
        Name(id, "");
      }
    }
    for (ScalarId id : passes_.last) RETURN_IF_ERROR(body_.Node(id));
    RETURN_IF_ERROR(StoreOnce("t == 0"));
    // The next row's parts go where this row's may still be read.
    if (shape_.per_row > kWarp) out_.Line("__syncthreads();");
    out_.Close();
    return absl::OkStatus();
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
    if (!shape_.keep) return;
    for (const KernelPass& pass : passes_.passes)
      for (ScalarId id : pass.keeps) {
        kept_[id] = body_.Fresh("c");
        out_.Line(CTypeName(nest_.body[id].dtype), " ", kept_[id], "[",
                  shape_.groups * body_.width, "];");
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
    const int64_t step = int64_t{shape_.per_row} * body_.width;
    bool guarded = false;
    const std::string times = Times();
    if (shape_.keep) {
      out_.Line("#pragma unroll");
      out_.Open("for (int k = 0; k < ", shape_.groups, "; ++k)");
      out_.Line("const ", type, " r = (k * ", shape_.per_row, " + t)", times,
                ";");
      guarded = shape_.reduced_points.constant() % step != 0;
      if (guarded) out_.Open("if (r < ", Number(shape_.reduced_points), ")");
    } else {
      OpenPoints(pass, absl::StrCat("t", times), step, "");
    }
    SplitPoint(body_, "r", facts_.num_outer, facts_.num_axes);
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
    if (shape_.keep) {
      out_.Close();
    } else {
      ClosePoints("");
    }
    return absl::OkStatus();
  }

  // --- Columns.

  absl::Status Columns() {
    const char* type = body_.index_type();
    const std::string n = Number(shape_.outer_points);
    out_.Line("const int y = (int)threadIdx.x / ", shape_.per_row, ";");
    out_.Line("const ", type, " column = ((", type, ")blockIdx.x * ",
              shape_.per_row, " + (int)threadIdx.x % ", shape_.per_row, ")",
              Times(), ";");
    out_.Line("const bool live = column < ", n, ";");
    out_.Line("const ", type, " p = live ? column : 0;");
    live_ = "live";
    SplitPoint(body_, "p", 0, facts_.num_outer);
    grid_.blocks =
        CeilDiv(shape_.outer_points, int64_t{shape_.per_row} * body_.width);
    const std::string count = absl::StrCat("[", body_.width, "]");
    for (const KernelPass& pass : passes_.passes) {
      RETURN_IF_ERROR(ColumnValues(pass.before));
      RETURN_IF_ERROR(Declare(pass.reduces, count));
      OpenPoints(pass, "y", shape_.rows, count);
      SplitPoint(body_, "r", facts_.num_outer, facts_.num_axes);
      const auto then = [&](bool lanes) -> absl::Status {
        if (lanes != (body_.width > 1)) return absl::OkStatus();
        for (ScalarId id : pass.reduces)
          RETURN_IF_ERROR(Step(id, body_.width > 1 ? "[e]" : "[0]"));
        return absl::OkStatus();
      };
      RETURN_IF_ERROR(
          body_.WriteGroup({pass.inside, pass.stores, then, live_}));
      ClosePoints(count);
      for (ScalarId id : pass.reduces) {
        ASSIGN_OR_RETURN(const std::string join, JoinerText(nest_.body[id]));
        out_.Line("k_down<", shape_.per_row, ", ", shape_.rows, ">(",
                  accumulator_[id], ", ", join, ");");
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
    OpenGridLoop(body_, "first", GlobalThread(body_, shape_.threads, 1),
                 Number(shape_.outer_points), shape_.threads);
    SplitPoint(body_, "first", 0, facts_.num_outer);
    grid_ = LoopGrid(CeilDiv(shape_.outer_points, int64_t{shape_.threads}),
                     shape_.threads);
    for (const KernelPass& pass : passes_.passes) {
      for (ScalarId id : pass.before) RETURN_IF_ERROR(body_.Node(id));
      RETURN_IF_ERROR(Declare(pass.reduces, ""));
      RETURN_IF_ERROR(SerialPass(pass));
      for (ScalarId id : pass.reduces) Name(id, "");
    }
    RETURN_IF_ERROR(
        body_.WriteGroup({passes_.last, passes_.last_stores, &Nothing, ""}));
    out_.Close();
    return absl::OkStatus();
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
      body_.SetText(id, WideText(id));
    }
    for (ScalarId id : pass.reduces) RETURN_IF_ERROR(Step(id, ""));
    static const std::vector<ScalarId> kNone;
    RETURN_IF_ERROR(body_.WriteGroup({kNone, pass.stores, &Nothing, ""}));
    for (uint32_t axis = facts_.num_outer; axis <= last; ++axis) out_.Close();
    return absl::OkStatus();
  }

  const CudaShape& shape_;
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const KernelPasses& passes_;
  CudaGrid grid_;
  std::string live_;  // condition that this thread's stores count; "": always
  std::vector<std::string> accumulator_ =
      std::vector<std::string>(nest_.body.size());
  std::vector<ScalarId> blocks_;  // sums of this pass that go in blocks
  std::vector<std::string> total_ = std::vector<std::string>(nest_.body.size());
  std::vector<std::string> kept_ = std::vector<std::string>(nest_.body.size());
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaReduction(CudaBody& body,
                                            const CudaShape& shape,
                                            const KernelPasses& passes) {
  return CudaReductionWriter(body, shape, passes).Run();
}

}  // namespace kiln

#include "compiler/codegen/cuda_columns.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda_accumulators.h"
#include "compiler/codegen/load_ahead.h"
#include "compiler/schedule/reduce_ops.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class ColumnsWriter {
 public:
  ColumnsWriter(CudaBody& body, const CudaColumns& variant,
                const KernelPasses& passes)
      : v_(variant),
        body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        passes_(passes),
        sums_(body, CudaAccumulators::Kind::kShared),
        side_(variant.across + variant.peel),
        points_(PointsOf(body, facts_.num_outer, facts_.num_axes)),
        columns_(PointsOf(body, 0, facts_.num_outer)),
        nothing_kept_(nest_.body.size()) {
    body.loads_past_ends = variant.peel != 0;
  }

  absl::StatusOr<CudaGrid> Run() {
    CudaGrid grid;
    const SymExpr blocks = Blocks();
    grid.blocks = blocks * v_.parts;
    Place(blocks);
    for (const KernelPass& pass : passes_.passes) {
      RETURN_IF_ERROR(ColumnValues(pass.before));
      RETURN_IF_ERROR(sums_.Declare(pass.reduces, Count()));
      RETURN_IF_ERROR(Pass(pass));
      sums_.EndPass(pass.reduces, Count());
      if (v_.peel != 0) Realign(pass);
      RETURN_IF_ERROR(v_.parts > 1
                          ? JoinParts(pass)
                          : sums_.JoinDown(pass.reduces, side_, v_.down));
      for (ScalarId id : pass.reduces) sums_.Name(id, At());
    }
    RETURN_IF_ERROR(body_.WriteGroup(
        {Last(), passes_.last_stores, &Nothing, "y == 0 && live"}));
    if (v_.peel != 0) out_.Close();
    return grid;
  }

 private:
  static absl::Status Nothing(CudaBody::Place) { return absl::OkStatus(); }
  int Count() const { return body_.vectors.width; }
  std::string At() const { return body_.vectors.width > 1 ? "[e]" : "[0]"; }

  SymExpr Blocks() const {
    if (v_.peel == 0) return CeilDiv(columns_, int64_t{v_.across});
    SymExpr blocks = BlocksOfRow();
    for (uint32_t axis = 0; axis + 1 < facts_.num_outer; ++axis)
      blocks = facts_.extents[axis] * blocks;
    return blocks;
  }

  void Place(const SymExpr& blocks) {
    const char* type = body_.index_type();
    sums_.DeclareParts(side_, v_.down);
    out_.Line("const int y = (int)threadIdx.x / ", side_, ";");
    std::string block = "blockIdx.x";
    if (v_.parts > 1) {
      const std::string n = body_.Index(blocks);
      out_.Line("const unsigned part = blockIdx.x / (unsigned)", n, ";");
      out_.Line("const unsigned block = blockIdx.x % (unsigned)", n, ";");
      block = "block";
      const SymExpr length = CeilDiv(points_, int64_t{v_.parts});
      out_.Line("const ", type, " part_first = (", type, ")part * ",
                body_.Index(length), ";");
      out_.Line("const ", type, " part_end = part_first + ",
                body_.Index(length), " < ", body_.Index(points_),
                " ? part_first + ", body_.Index(length), " : ",
                body_.Index(points_), ";");
    }
    if (v_.peel != 0) return PlacePeeled(block);
    out_.Line("const ", type, " column = (", type, ")", block, " * ", v_.across,
              " + (int)threadIdx.x % ", v_.across, ";");
    out_.Line("const bool live = column < ", body_.Index(columns_), ";");
    out_.Line("const ", type, " p = live ? column : 0;");
    SplitPoint(body_, "p", 0, facts_.num_outer);
  }

  // --- Groups that begin where the memory of a row is aligned.

  int64_t ColumnsOfBlock() const { return int64_t{v_.across} * v_.vector; }
  SymExpr BlocksOfRow() const {
    return CeilDiv(facts_.extents[facts_.num_outer - 1], ColumnsOfBlock());
  }

  // Declares the block's columns, and the thread's group in each row that it reads.
  void PlacePeeled(const std::string& block) {
    const uint32_t last = facts_.num_outer - 1;
    const std::string type = body_.index_type();
    const std::string of_row =
        absl::StrCat("(unsigned)", body_.Index(BlocksOfRow()));
    if (last > 0)
      SplitPoint(body_, absl::StrCat("(", block, " / ", of_row, ")"), 0, last);
    const std::string extent = body_.Index(facts_.extents[last]);
    out_.Line("const ", type, " first_column = (", type, ")(", block, " % ",
              of_row, ") * ", ColumnsOfBlock(), ";");
    out_.Line("const ", type, " columns_end = ", extent, " - first_column < ",
              ColumnsOfBlock(), " ? ", extent, " : first_column + ",
              ColumnsOfBlock(), ";");
    out_.Line("const int x = (int)threadIdx.x % ", side_, ";");
    const std::string rest =
        body_.Index(body_.vectors.rest, [&](Var var) -> std::string {
          if (var.kind != Var::Kind::kAxis || var.index <= last) return "";
          return v_.parts > 1 ? "(part_first + y)" : "y";
        });
    out_.Line("const int shift = (int)((unsigned)(", rest, ") & ",
              v_.vector - 1, "u);");
    PlaceGroup(absl::StrCat("x * ", v_.vector, " - shift"), true);
    out_.Line("const bool live = hi > lo;");
  }

  // Declares the thread's group, from `begin` on in the block's columns.
  void PlaceGroup(const std::string& begin, bool may_begin_before) {
    const uint32_t last = facts_.num_outer - 1;
    const std::string name = CudaBody::AxisName(last);
    out_.Line("const ", body_.index_type(), " ", name, " = first_column + ",
              begin, ";");
    out_.Line("const int lo = ", may_begin_before ? "x == 0 ? shift : 0" : "0",
              ";");
    out_.Line("const int hi = columns_end - ", name, " >= ", v_.vector, " ? ",
              v_.vector, " : (int)(columns_end - ", name, ");");
  }

  // Moves the sums of the groups to those that begin at multiples of the width,
  // which the rest of the kernel, a block of its own, works with.
  void Realign(const KernelPass& pass) {
    sums_.Realign(pass.reduces, side_);
    const uint32_t last = facts_.num_outer - 1;
    out_.Open();
    body_.SetVectors(
        {last, v_.vector, 0, !IsMultiple(facts_.extents[last], v_.vector)});
    PlaceGroup(absl::StrCat("x * ", v_.vector), false);
    out_.Line("const bool live = x < ", v_.across, " && hi > 0;");
  }

  // What is computed once a column after the only pass: with `peel` also what was
  // before it, for other columns.
  std::vector<ScalarId> Last() const {
    std::vector<ScalarId> nodes = passes_.last;
    if (v_.peel == 0) return nodes;
    const std::vector<ScalarId>& before = passes_.passes[0].before;
    nodes.insert(nodes.end(), before.begin(), before.end());
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  }

  // Which of `nodes` others than these read.
  std::vector<bool> ReadElsewhere(const std::vector<ScalarId>& nodes) const {
    std::vector<bool> among(nest_.body.size()), read(nest_.body.size());
    for (ScalarId id : nodes) among[id] = true;
    const auto read_index = [&](const SymExpr& index) {
      index.VisitVars([&](Var var) {
        if (var.kind == Var::Kind::kIndirect) read[var.index] = true;
      });
    };
    for (ScalarId id = 0; id < nest_.body.size(); ++id) {
      if (among[id]) continue;
      for (ScalarId arg : nest_.body[id].args) read[arg] = true;
      for (const SymExpr& index : nest_.body[id].index) read_index(index);
    }
    for (const Store& store : nest_.stores) {
      read[store.value] = true;
      if (store.mask != Store::kNoMask) read[store.mask] = true;
      for (const SymExpr& index : store.index) read_index(index);
    }
    return read;
  }

  // Values of the columns themselves, once before a pass.
  absl::Status ColumnValues(const std::vector<ScalarId>& nodes) {
    const std::vector<bool> read = ReadElsewhere(nodes);
    std::vector<ScalarId> lanes;
    for (ScalarId id : nodes)
      if (body_.IsLanes(id) && read[id]) lanes.push_back(id);
    std::vector<std::string> names;
    for (ScalarId id : lanes) {
      names.push_back(body_.Fresh("x"));
      out_.Line(CTypeName(nest_.body[id].dtype), " ", names.back(), "[",
                body_.vectors.width, "];");
    }
    const auto then = [&](CudaBody::Place place) {
      const bool here = place == CudaBody::Place::kNeighbour;
      for (size_t k = 0; here && k < lanes.size(); ++k)
        out_.Line(names[k], "[e] = ", body_.Text(lanes[k]), ";");
      return absl::OkStatus();
    };
    static const std::vector<uint32_t> kNone;
    RETURN_IF_ERROR(body_.WriteGroup({nodes, kNone, then, ""}));
    for (size_t k = 0; k < lanes.size(); ++k)
      body_.SetText(lanes[k], absl::StrCat(names[k], "[e]"));
    return absl::OkStatus();
  }

  absl::Status Pass(const KernelPass& pass) {
    const bool split = v_.parts > 1;
    const std::string limit = split ? "part_end" : body_.Index(points_);
    const int64_t step = int64_t{v_.down} * v_.unroll;
    // Of peeled groups a thread may have none.
    const bool all_below = !split && v_.peel == 0 && points_.Is(step);
    std::string first = split ? "part_first + y" : "y";
    if (v_.peel != 0)
      first = absl::StrCat("(live ? ", first, " : ", limit, ")");
    sums_.OpenLoop(
        pass.reduces,
        {first, limit, split ? CeilDiv(points_, int64_t{v_.parts}) : points_,
         step, v_.floats / v_.unroll, all_below},
        Count());
    const auto then = [&](CudaBody::Place place) -> absl::Status {
      if (place != CudaBody::Place::kNeighbour) return absl::OkStatus();
      for (ScalarId id : pass.reduces) RETURN_IF_ERROR(sums_.Step(id, At()));
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(WriteUnrolled(
        body_, {v_.unroll, v_.down, limit, all_below, !pass.stores.empty()},
        pass.inside, nothing_kept_, [&] {
          return body_.WriteGroup(
              {pass.inside, pass.stores, then, "live", v_.peel != 0});
        }));
    sums_.CloseLoop(Count());
    return absl::OkStatus();
  }

  // The last block of its columns adds the parts; the others are done. A loop, so
  // that the code that joins threads stands once.
  absl::Status JoinParts(const KernelPass& pass) {
    // A point's cell: where the group begins, in elements.
    SymExpr points = 1, first = 0;
    for (uint32_t axis = 0; axis < facts_.num_outer; ++axis) {
      points = points * facts_.extents[axis];
      first = first * facts_.extents[axis] + SymExpr::Axis(axis);
    }
    const std::string point = facts_.num_outer == 0 ? "0" : body_.Index(first);
    out_.Line("#pragma unroll 1");
    out_.Open("for (int joined = 0;; joined = 1)");
    RETURN_IF_ERROR(sums_.JoinDown(pass.reduces, side_, v_.down));
    out_.Line("if (joined != 0) break;");
    sums_.StorePartials(pass.reduces, points, v_.parts, point, Count(),
                        "y == 0 && live");
    out_.Line("if (!k_last_block(counters + block, ", v_.parts, "u)) return;");
    const std::string cell = absl::StrCat("(", point, " + e)");
    RETURN_IF_ERROR(sums_.LoadPartials(
        pass.reduces, {points, v_.parts, cell, Count(), "y", v_.down}, "live"));
    out_.Close();
    return absl::OkStatus();
  }

  const CudaColumns& v_;
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const KernelPasses& passes_;
  CudaAccumulators sums_;
  const int side_;         // threads side by side
  const SymExpr points_;   // that are reduced
  const SymExpr columns_;  // groups of outer points
  const std::vector<std::string> nothing_kept_;
};

class SerialWriter {
 public:
  SerialWriter(CudaBody& body, const CudaSerial& variant,
               const KernelPasses& passes)
      : v_(variant),
        body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        passes_(passes),
        sums_(body, CudaAccumulators::Kind::kAlone) {}

  absl::StatusOr<CudaGrid> Run() {
    const SymExpr points = PointsOf(body_, 0, facts_.num_outer);
    OpenGridLoop(body_, "first",
                 absl::StrCat("(unsigned ", body_.index_type(),
                              ")blockIdx.x * ", v_.threads, " + threadIdx.x"),
                 points, v_.threads, true);
    SplitPoint(body_, "first", 0, facts_.num_outer);
    for (const KernelPass& pass : passes_.passes) {
      for (ScalarId id : pass.before) RETURN_IF_ERROR(body_.Node(id));
      RETURN_IF_ERROR(sums_.Declare(pass.reduces, 0));
      RETURN_IF_ERROR(Pass(pass));
      sums_.EndPass(pass.reduces, 0);
      for (ScalarId id : pass.reduces) sums_.Name(id, "");
    }
    RETURN_IF_ERROR(
        body_.WriteGroup({passes_.last, passes_.last_stores, &Nothing, ""}));
    out_.Close();
    return CudaGrid{CeilDiv(points, int64_t{v_.threads}), v_.blocks};
  }

 private:
  static absl::Status Nothing(CudaBody::Place) { return absl::OkStatus(); }

  absl::Status Pass(const KernelPass& pass) {
    const uint32_t last = facts_.num_axes - 1;
    for (uint32_t axis = facts_.num_outer; axis <= last; ++axis) {
      if (axis == last) {
        std::vector<ScalarId> scans;
        for (ScalarId id : pass.inside)
          if (nest_.body[id].op == ScalarOp::kScan) scans.push_back(id);
        RETURN_IF_ERROR(sums_.Declare(scans, 0));
      }
      const std::string i = CudaBody::AxisName(axis);
      out_.Open("for (", body_.index_type(), " ", i, " = 0; ", i, " < ",
                body_.Index(facts_.extents[axis]), "; ++", i, ")");
    }
    for (ScalarId id : pass.inside) {
      if (nest_.body[id].op != ScalarOp::kScan) {
        RETURN_IF_ERROR(body_.Node(id));
        continue;
      }
      RETURN_IF_ERROR(sums_.Step(id, ""));
      sums_.NameRunning(id);
    }
    for (ScalarId id : pass.reduces) RETURN_IF_ERROR(sums_.Step(id, ""));
    static const std::vector<ScalarId> kNone;
    RETURN_IF_ERROR(body_.WriteGroup({kNone, pass.stores, &Nothing, ""}));
    for (uint32_t axis = facts_.num_outer; axis <= last; ++axis) out_.Close();
    return absl::OkStatus();
  }

  const CudaSerial& v_;
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const KernelPasses& passes_;
  CudaAccumulators sums_;
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaColumns(CudaBody& body,
                                          const CudaColumns& variant,
                                          const KernelPasses& passes) {
  return ColumnsWriter(body, variant, passes).Run();
}

absl::StatusOr<CudaGrid> WriteCudaSerial(CudaBody& body,
                                         const CudaSerial& variant,
                                         const KernelPasses& passes) {
  return SerialWriter(body, variant, passes).Run();
}

}  // namespace kiln

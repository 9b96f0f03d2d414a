#include "compiler/codegen/cuda_rows.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda_accumulators.h"
#include "compiler/codegen/load_ahead.h"
#include "compiler/codegen/staged_loads.h"
#include "compiler/codegen/stretch_sums.h"
#include "compiler/config/target.h"
#include "compiler/schedule/held_rows.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class RowsWriter {
 public:
  RowsWriter(CudaBody& body, const CudaRows& variant,
             const KernelPasses& passes)
      : v_(variant),
        body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        passes_(passes),
        sums_(body, CudaAccumulators::Kind::kShared),
        columns_(body, variant),
        staged_(body, variant, passes),
        groups_(PointsOf(body, facts_.num_outer, facts_.num_axes)),
        rows_(PointsOf(body, 0, facts_.num_outer)),
        kept_(nest_.body.size()) {
    for (ScalarId id : staged_.groups()) kept_[id] = "staged";
  }

  absl::StatusOr<CudaGrid> Run() {
    out_.Line("const int t = (int)threadIdx.x % ", v_.lanes, ";");
    CudaGrid grid = Open();
    SplitPoint(body_, "row", 0, facts_.num_outer);
    HoldRow();
    for (const KernelPass& pass : passes_.passes) {
      for (ScalarId id : pass.before)
        if (!staged_.Has(id)) RETURN_IF_ERROR(body_.Node(id));
      RETURN_IF_ERROR(sums_.Declare(pass.reduces, 0));
      RETURN_IF_ERROR(Pass(pass));
      sums_.EndPass(pass.reduces, 0);
      RETURN_IF_ERROR(sums_.JoinAcross(
          pass.reduces, {v_.lanes, v_.lanes * v_.rows, v_.cluster}));
      if (v_.parts > 1) RETURN_IF_ERROR(JoinParts(pass));
      for (ScalarId id : pass.reduces) sums_.Name(id, "");
    }
    for (ScalarId id : passes_.last) RETURN_IF_ERROR(body_.Node(id));
    RETURN_IF_ERROR(StoreResults());
    // The next row's parts go where this row's may still be read.
    if (v_.lanes > kWarp && v_.parts == 1 && v_.cluster == 1 &&
        (v_.stretch > 0 || !body_.one_turn))
      out_.Line("__syncthreads();");
    // Others may still read this block's results.
    if (v_.cluster > 1) out_.Line("k_cluster_sync();");
    if (v_.stages > 1)
      out_.Line("stage = stage == ", v_.stages - 1, " ? 0 : stage + 1;");
    out_.Close();
    if (v_.stretch > 0) RETURN_IF_ERROR(CloseStretch(grid));
    return grid;
  }

 private:
  // Declares `row` from the number of the block's first, below `end`.
  void DeclareRow(const std::string& first, const std::string& end,
                  bool guarded) {
    const char* type = body_.index_type();
    if (v_.rows == 1) {
      out_.Line("const ", type, " row = (", type, ")", first, ";");
      return;
    }
    out_.Line("const ", type, " block_row = (", type, ")", first,
              " + (int)threadIdx.x / ", v_.lanes, ";");
    // A row too many does another row's work and writes nothing.
    if (guarded) {
      out_.Line("const bool live = block_row < ", end, ";");
      live_ = "live";
    }
    out_.Line("const ", type,
              " row = ", guarded ? "live ? block_row : 0" : "block_row", ";");
  }

  // Opens the loop over the block's rows, and declares `row`.
  CudaGrid Open() {
    CudaGrid grid;
    if (Shares() > 1) {
      OpenPart();
      grid.blocks = CeilDiv(rows_, int64_t{v_.rows}) * Shares();
      return grid;
    }
    LoopText loop;
    if (v_.stretch > 0) {
      loop = StretchLoop();
      grid.blocks = CeilDiv(rows_, int64_t{v_.stretch});
    } else {
      loop = RowsInTurn();
      grid = {CeilDiv(rows_, int64_t{v_.rows}), v_.blocks};
    }
    if (v_.stages > 0) {
      grid.shared_bytes = staged_.bytes();
      staged_.Declare();
      CopyFirstRows(loop);
    }
    if (v_.stretch > 0) {
      OpenLoop(body_, "first", loop);
    } else {
      OpenTurns(body_, "first", loop, false);
    }
    if (v_.stages > 0) CopyRowAhead(loop);
    DeclareRow("first", loop.end, last_rows_may_be_too_many_);
    return grid;
  }

  // Blocks take rows in turn.
  LoopText RowsInTurn() {
    last_rows_may_be_too_many_ = !IsMultiple(rows_, v_.rows);
    return GridLoop(
        body_,
        absl::StrCat("(unsigned ", body_.index_type(), ")blockIdx.x",
                     v_.rows == 1 ? "" : absl::StrCat(" * ", v_.rows)),
        body_.Index(rows_), v_.rows);
  }

  // A block takes the rows of one stretch. What all rows share it loads once.
  LoopText StretchLoop() {
    const std::string type = body_.index_type();
    columns_.Declare();
    std::vector<ScalarId> shared;
    for (ScalarId id : HeldLoads(passes_, nest_))
      if (IsOfAllRows(id, facts_)) shared.push_back(id);
    Hold(shared);
    const std::string rows = body_.Index(rows_);
    out_.Line("const ", type, " stretch = (", type, ")blockIdx.x * ",
              v_.stretch, ";");
    out_.Line("const ", type, " stretch_end = ", rows, " - stretch < ",
              v_.stretch, " ? ", rows, " : stretch + ", v_.stretch, ";");
    last_rows_may_be_too_many_ =
        v_.stretch % v_.rows != 0 || !IsMultiple(rows_, v_.rows);
    return {type, "stretch", "stretch_end", absl::StrCat(v_.rows)};
  }

  // --- Copies to shared memory.

  // Begins the copies of the rows from number `next` on into `stage`.
  void CopyRows(const LoopText& loop, const std::string& next,
                const std::string& stage) {
    out_.Line("const ", loop.type, " next = ", next, ";");
    out_.Open("if (next < ", loop.end, ")");
    DeclareRow("next", loop.end, last_rows_may_be_too_many_);
    SplitPoint(body_, "row", 0, facts_.num_outer);
    staged_.CopyRow(stage);
    OpenHeld();
    staged_.CopyGroup(stage);
    CloseHeld();
    out_.Close();
    out_.Line("k_copies_end();");
  }

  void CopyFirstRows(const LoopText& loop) {
    if (v_.stages == 1) return;
    out_.Line("int stage = 0;");
    out_.Open("for (int s = 0; s < ", v_.stages - 1, "; ++s)");
    CopyRows(loop, absl::StrCat(loop.first, " + s * ", loop.step), "s");
    out_.Close();
  }

  void CopyRowAhead(const LoopText& loop) {
    out_.Open("");
    const int ahead = v_.stages - 1;
    if (ahead == 0) {
      CopyRows(loop, "first", "0");
    } else {
      out_.Line("const int to = stage == 0 ? ", ahead, " : stage - 1;");
      CopyRows(loop, absl::StrCat("first + ", ahead, " * ", loop.step), "to");
    }
    out_.Close();
  }

  std::string Stage() const { return v_.stages > 1 ? "stage" : "0"; }

  // Stores what the threads have added.
  absl::Status CloseStretch(CudaGrid& grid) {
    out_.Open("");
    SplitPoint(body_, "stretch", 0, facts_.num_outer);
    if (v_.rows > 1) {
      ASSIGN_OR_RETURN(grid.shared_bytes, columns_.StoreRows(staged_.bytes()));
    } else {
      OpenHeld();
      RETURN_IF_ERROR(columns_.Store());
      CloseHeld();
    }
    out_.Close();
    return absl::OkStatus();
  }

  // Blocks on the same rows.
  int Shares() const { return std::max(v_.parts, v_.cluster); }

  void OpenPart() {
    const char* type = body_.index_type();
    const int shares = Shares();
    out_.Open();
    out_.Line("const unsigned part = blockIdx.x % ", shares, "u;");
    DeclareRow(
        absl::StrCat("(blockIdx.x / ", shares, "u",
                     v_.rows == 1 ? "" : absl::StrCat(" * ", v_.rows), ")"),
        body_.Index(rows_), !IsMultiple(rows_, v_.rows));
    // Equal stretches of the row's groups.
    const std::string length = body_.Index(CeilDiv(groups_, int64_t{shares}));
    const std::string groups = body_.Index(groups_);
    out_.Line("const ", type, " part_first = (", type, ")part * ", length, ";");
    out_.Line("const ", type, " part_end = part_first + ", length, " < ",
              groups, " ? part_first + ", length, " : ", groups, ";");
  }

  // The last block of a row adds the parts; the others are done.
  absl::Status JoinParts(const KernelPass& pass) {
    const std::string live = live_.empty() ? "" : absl::StrCat(" && ", live_);
    sums_.StorePartials(pass.reduces, rows_, v_.parts, "row", 0,
                        absl::StrCat("t == 0", live));
    out_.Line("if (!k_last_block(counters + blockIdx.x / ", v_.parts, "u, ",
              v_.parts, "u)) return;");
    RETURN_IF_ERROR(sums_.LoadPartials(
        pass.reduces, {rows_, v_.parts, "row", 0, "t", v_.lanes},
        live_.empty() ? "true" : live_));
    return sums_.JoinAcross(pass.reduces, {v_.lanes, v_.lanes * v_.rows, 1});
  }

  // Stores that do not move with the reduced axes, by one thread of the row.
  absl::Status StoreResults() {
    std::string condition = v_.cluster > 1 ? "t == 0 && part == 0" : "t == 0";
    if (!live_.empty()) absl::StrAppend(&condition, " && ", live_);
    out_.Open("if (", condition, ")");
    for (uint32_t s : passes_.last_stores) RETURN_IF_ERROR(body_.StoreOne(s));
    out_.Close();
    return absl::OkStatus();
  }

  // --- What stays in registers between passes.

  // Declares the loads' packs and fills them: all loads of a thread are under way
  // before it uses the first.
  void Hold(const std::vector<ScalarId>& loads) {
    if (loads.empty()) return;
    for (ScalarId id : loads) {
      kept_[id] = body_.Fresh("c");
      out_.Line(body_.PackType(id), " ", kept_[id], "[", v_.held, "] = {};");
    }
    OpenHeld();
    for (ScalarId id : loads)
      body_.LoadAhead(id, absl::StrCat(kept_[id], "[k]"));
    CloseHeld();
    for (ScalarId id : loads)
      body_.ReadFrom(id, absl::StrCat(kept_[id], "[k]"));
  }

  void HoldRow() {
    if (v_.held == 0) return;
    for (const KernelPass& pass : passes_.passes) {
      for (ScalarId id : pass.keeps) {
        if (nest_.body[id].op == ScalarOp::kLoad) continue;
        kept_[id] = body_.Fresh("c");
        out_.Line(CTypeName(nest_.body[id].dtype), " ", kept_[id], "[",
                  v_.held * body_.vectors.width, "];");
      }
    }
    std::vector<ScalarId> loads;
    for (ScalarId id : HeldLoads(passes_, nest_))
      if (kept_[id].empty()) loads.push_back(id);
    Hold(loads);
    if (v_.stages == 0) return;
    out_.Line("k_copies_wait<", v_.stages - 1, ">();");
    staged_.ReadRow(Stage());
  }

  std::string KeptCell(ScalarId id) const {
    if (body_.vectors.width == 1) return absl::StrCat(kept_[id], "[k]");
    // What all elements of a group share stands once, in its first cell.
    return absl::StrCat(kept_[id], "[k * ", body_.vectors.width,
                        body_.IsLanes(id) ? " + e]" : "]");
  }

  // "for k: if (r < groups)", and the group's axes.
  void OpenHeld() {
    const char* type = body_.index_type();
    // Values in registers are reached by constant numbers alone.
    const bool in_registers = v_.stages == 0 || v_.stretch > 0;
    out_.Line("#pragma unroll",
              in_registers ? "" : absl::StrCat(" ", kWrittenOut));
    const int64_t threads = int64_t{v_.lanes} * Shares();
    const int64_t turns =
        groups_.is_constant()
            ? std::min<int64_t>(v_.held, CeilDiv(groups_, threads).constant())
            : v_.held;
    out_.Open("for (int k = 0; k < ", turns, "; ++k)");
    const bool part = Shares() > 1;
    out_.Line("const ", type, " r = ", part ? "part_first + " : "", "k * ",
              v_.lanes, " + t;");
    held_guarded_ = !groups_.Is(turns * threads);
    if (held_guarded_)
      out_.Open("if (r < ", part ? "part_end" : body_.Index(groups_), ")");
    SplitPoint(body_, "r", facts_.num_outer, facts_.num_axes, Whole());
  }
  void CloseHeld() {
    if (held_guarded_) out_.Close();
    out_.Close();
  }

  // When a group of a held row is whole for every thread.
  std::string Whole() const {
    const SymExpr& extent = facts_.extents[facts_.num_axes - 1];
    if (!body_.vectors.cut || !extent.is_constant() || Shares() > 1 ||
        facts_.num_axes - facts_.num_outer != 1) {
      return "";
    }
    const int64_t step = int64_t{v_.lanes} * body_.vectors.width;
    return absl::StrCat(body_.vectors.rest.Is(0) ? "" : "k > 0 && ",
                        "(k + 1) * ", step, " <= ", extent.constant());
  }

  // --- A pass over the row.

  absl::Status Pass(const KernelPass& pass) {
    return v_.held > 0 ? HeldPass(pass) : LoopPass(pass);
  }

  absl::Status Body(const KernelPass& pass) {
    using Place = CudaBody::Place;
    const auto then = [&](Place place) -> absl::Status {
      for (ScalarId id : pass.keeps) {
        if (nest_.body[id].op == ScalarOp::kLoad) continue;
        const bool once = body_.vectors.width > 1 && !body_.IsLanes(id);
        if (place == (once ? Place::kBefore : Place::kNeighbour))
          out_.Line(KeptCell(id), " = ", body_.Text(id), ";");
      }
      for (ScalarId id : pass.reduces) {
        const bool in_groups = sums_.InGroups(id);
        if (place == Place::kBefore && in_groups) sums_.BeginGroup(id);
        if (place == Place::kBehind && in_groups) sums_.EndGroup(id);
        if (place != Place::kNeighbour) continue;
        if (in_groups) {
          sums_.GroupStep(id);
        } else {
          RETURN_IF_ERROR(sums_.Step(id, ""));
        }
      }
      if (place == Place::kNeighbour && &pass == &passes_.passes.back())
        columns_.Add(live_);
      return absl::OkStatus();
    };
    std::vector<uint32_t> stores;
    for (uint32_t s : pass.stores)
      if (!columns_.Has(s)) stores.push_back(s);
    const bool adds_nothing = pass.reduces.empty() && !columns_.Any();
    return body_.WriteGroup({pass.inside, stores, then, live_, adds_nothing});
  }

  absl::Status HeldPass(const KernelPass& pass) {
    // What only this pass loads, all groups at once where there is room.
    LoadsAhead ahead(body_, pass.inside, kept_);
    const bool together = v_.unroll > 1 && !ahead.loads().empty();
    if (together) {
      ahead.Declare(v_.held);
      OpenHeld();
      ahead.Load("k");
      CloseHeld();
    }
    OpenHeld();
    staged_.ReadGroup(pass.inside, Stage());
    staged_.ReadGroup(pass.kept, Stage());
    for (ScalarId id : pass.kept) {
      if (staged_.Has(id)) continue;
      if (nest_.body[id].op != ScalarOp::kLoad) {
        body_.SetText(id, KeptCell(id));
      } else if (IsHalf(nest_.body[id].dtype)) {
        // Else the compiler would keep what an earlier pass made of it, in twice
        // the registers.
        out_.Line("k_forget(", kept_[id], "[k]);");
      }
    }
    if (together) ahead.Read("k");
    RETURN_IF_ERROR(Body(pass));
    CloseHeld();
    ahead.Forget();
    return absl::OkStatus();
  }

  absl::Status LoopPass(const KernelPass& pass) {
    const bool part = Shares() > 1;
    const std::string first = part ? "part_first + t" : "t";
    const int64_t step = int64_t{v_.lanes} * v_.unroll;
    const bool all_below = !part && groups_.Is(step);
    const int64_t most = v_.floats / (int64_t{v_.vector} * v_.unroll);
    std::string limit = body_.Index(groups_);
    if (part) limit = "part_end";
    sums_.OpenLoop(pass.reduces,
                   {first, limit, CeilDiv(groups_, int64_t{Shares()}), step,
                    most, all_below},
                   0);
    RETURN_IF_ERROR(WriteUnrolled(
        body_, {v_.unroll, v_.lanes, limit, all_below, !pass.stores.empty()},
        pass.inside, kept_, [&] { return Body(pass); }));
    sums_.CloseLoop(0);
    return absl::OkStatus();
  }

  const CudaRows& v_;
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const KernelPasses& passes_;
  CudaAccumulators sums_;
  StretchSums columns_;
  StagedLoads staged_;
  const SymExpr groups_;  // of a row
  const SymExpr rows_;
  std::string live_;  // condition that this thread's stores count; "": always
  std::vector<std::string> kept_;
  bool held_guarded_ = false;
  bool last_rows_may_be_too_many_ = false;  // of a block
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaRows(CudaBody& body, const CudaRows& variant,
                                       const KernelPasses& passes) {
  return RowsWriter(body, variant, passes).Run();
}

}  // namespace kiln

#include "compiler/codegen/cuda_scans.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/load_ahead.h"
#include "compiler/codegen/scan_texts.h"
#include "compiler/codegen/scanned_nodes.h"
#include "compiler/schedule/reduce_ops.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class ScansWriter {
 public:
  ScansWriter(CudaBody& body, const CudaScans& variant)
      : v_(variant),
        body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        groups_(PointsOf(body, facts_.num_outer, facts_.num_axes)),
        rows_(PointsOf(body, 0, facts_.num_outer)),
        width_(body.vectors.width),
        tile_(variant.lanes * variant.unroll),
        nodes_(NodesOfScans(body.nest, body.facts)),
        texts_(body.nest),
        begin_("0"),
        end_(body.Index(groups_)),
        cells_(nest_.body.size()) {}

  absl::StatusOr<CudaGrid> Run() {
    out_.Line("const int t = (int)threadIdx.x % ", v_.lanes, ";");
    return v_.parts > 1 ? Shared() : Alone();
  }

 private:
  // A block takes whole rows.
  absl::StatusOr<CudaGrid> Alone() {
    const char* type = body_.index_type();
    OpenGridLoop(body_, "first",
                 absl::StrCat("(unsigned ", type, ")blockIdx.x * ", v_.rows),
                 rows_, v_.rows, false);
    out_.Line("const ", type, " block_row = (", type,
              ")first + (int)threadIdx.x / ", v_.lanes, ";");
    out_.Line("const bool live = block_row < ", body_.Index(rows_), ";");
    out_.Line("const ", type, " row = live ? block_row : 0;");
    RETURN_IF_ERROR(BeginRow());
    for (ScalarId id : nodes_.ops)
      out_.Line(texts_.Type(id), " carry", id, " = ", texts_.Identity(id), ";");
    RETURN_IF_ERROR(Running());
    out_.Close();
    return CudaGrid{CeilDiv(rows_, int64_t{v_.rows}), v_.blocks};
  }

  // A block takes a part of a row: first what it comes to, then, with what the
  // parts before it come to, its running values.
  absl::StatusOr<CudaGrid> Shared() {
    const char* type = body_.index_type();
    const std::string groups = body_.Index(groups_);
    // Whole tiles; the last parts may be empty.
    const std::string length = body_.Index(
        CeilDiv(CeilDiv(groups_, int64_t{v_.parts}), tile_) * tile_);
    out_.Line("const unsigned block = k_ticket(counters);");
    out_.Line("const ", type, " row = (", type, ")(block / ", v_.parts, "u);");
    out_.Line("const unsigned part = block % ", v_.parts, "u;");
    out_.Line("const bool live = true;");
    out_.Line("const long long from = (long long)part * ", length, ";");
    out_.Line("const ", type, " begin = (", type, ")(from < ", groups,
              " ? from : ", groups, ");");
    out_.Line("const ", type, " end = (", type, ")(from + ", length, " < ",
              groups, " ? from + ", length, " : ", groups, ");");
    begin_ = "begin";
    end_ = "end";
    RETURN_IF_ERROR(BeginRow());
    RETURN_IF_ERROR(Totals());
    out_.Line("const unsigned row_block = block - part;");
    for (ScalarId id : nodes_.ops) {
      ASSIGN_OR_RETURN(const std::string join, texts_.Joiner(id));
      out_.Line(texts_.Type(id), " carry", id, " = k_parts_before<", v_.lanes,
                ">(", TotalsOf(id),
                " + row_block, counters + 2 + row_block, part, (",
                texts_.Type(id), ")", texts_.Identity(id), ", ", join, ");");
    }
    RETURN_IF_ERROR(Running());
    const SymExpr blocks = rows_ * v_.parts;
    out_.Line("k_leave<", v_.lanes, ">(counters, (unsigned)",
              body_.Index(blocks), ");");
    return CudaGrid{.blocks = blocks};
  }

  // What the part comes to, for the parts behind it.
  absl::Status Totals() {
    out_.Open("if (part + 1 < ", v_.parts, "u)");
    std::vector<std::string> totals(nest_.body.size());
    for (ScalarId id : nodes_.ops) {
      totals[id] = body_.Fresh("sum");
      out_.Line(texts_.Type(id), " ", totals[id], " = ", texts_.Identity(id),
                ";");
    }
    OpenTiles();
    RETURN_IF_ERROR(Values());
    for (ScalarId id : nodes_.ops) {
      RETURN_IF_ERROR(ScanGroups(id));
      ASSIGN_OR_RETURN(const std::string more,
                       texts_.Combined(id, totals[id], LastOfGroup(id)));
      EachGroup(totals[id], " = ", more, ";");
    }
    out_.Close();
    for (ScalarId id : nodes_.ops) {
      ASSIGN_OR_RETURN(const std::string join, texts_.Joiner(id));
      const std::string all = body_.Fresh("b");
      out_.Line("const ", texts_.Type(id), " ", all, " = k_across<", v_.lanes,
                ", ", v_.lanes, ">(", totals[id], ", ", join, ");");
      out_.Line("if (threadIdx.x == 0) ", TotalsOf(id), "[block] = ", all, ";");
    }
    out_.Line("if (threadIdx.x == 0) k_raise(counters + 2 + block);");
    out_.Close();
    return absl::OkStatus();
  }

  // Where the parts' totals stand, one for each block.
  std::string TotalsOf(ScalarId id) const {
    SymExpr rows = 1;
    for (uint32_t a = 0; a < facts_.num_outer; ++a)
      rows = rows * facts_.extents[a];
    const SymExpr before = PartialsBefore(nest_, id, rows, v_.parts);
    return absl::StrCat(
        "((", texts_.Type(id), "*)(w",
        before.Is(0) ? "" : absl::StrCat(" + ", body_.Index(before)), "))");
  }

  absl::Status BeginRow() {
    SplitPoint(body_, "row", 0, facts_.num_outer);
    for (ScalarId id : nodes_.outer) RETURN_IF_ERROR(body_.Node(id));
    return absl::OkStatus();
  }

  void OpenTiles() {
    out_.Open("for (", body_.index_type(), " tile = ", begin_, "; tile < ",
              end_, "; tile += ", tile_, ")");
    out_.Line("const ", body_.index_type(), " r = tile + t;");
  }

  // A statement for each of the thread's groups.
  template <typename... Args>
  void EachGroup(const Args&... args) {
    out_.Line("#pragma unroll");
    out_.Line("for (int u = 0; u < ", v_.unroll, "; ++u) ", args...);
  }

  absl::Status Running() {
    OpenTiles();
    RETURN_IF_ERROR(Values());
    for (ScalarId id : nodes_.ops) RETURN_IF_ERROR(Join(id));
    RETURN_IF_ERROR(Stores());
    out_.Close();
    return absl::OkStatus();
  }

  // A statement for each element of them, from the `first` of a group on.
  template <typename... Args>
  void EachElement(int first, const Args&... args) {
    out_.Line("#pragma unroll");
    out_.Open("for (int u = 0; u < ", v_.unroll, "; ++u)");
    out_.Line("#pragma unroll");
    out_.Line("for (int e = ", first, "; e < ", width_, "; ++e) ", args...);
    out_.Close();
  }

  // At each of the thread's groups that the row has. The loads of `nodes` are issued
  // together before.
  absl::Status AtGroups(const std::vector<ScalarId>& nodes,
                        absl::FunctionRef<absl::Status()> step) {
    out_.Open("if (r < ", end_, ")");
    RETURN_IF_ERROR(WriteUnrolled(body_, {v_.unroll, v_.lanes, end_}, nodes,
                                  std::vector<std::string>(nest_.body.size()),
                                  step));
    out_.Close();
    return absl::OkStatus();
  }

  std::string Cell(ScalarId id) const {
    return absl::StrCat(cells_[id], v_.unroll > 1 ? "[u]" : "[0]",
                        width_ > 1 ? "[e]" : "[0]");
  }

  // The groups' own values; past the row's end what changes nothing.
  absl::Status Values() {
    for (ScalarId id : nodes_.ops) {
      cells_[id] = body_.Fresh("run");
      const ScalarNode& node = nest_.body[id];
      out_.Line(CTypeName(node.dtype), " ", cells_[id], "[", v_.unroll, "][",
                width_, "];");
      EachElement(0, cells_[id],
                  "[u][e] = ", IdentityText(node.reduce, node.dtype), ";");
    }
    const auto then = [&](CudaBody::Place place) {
      if (place != CudaBody::Place::kNeighbour) return absl::OkStatus();
      for (ScalarId id : nodes_.ops)
        out_.Line(Cell(id), " = ", body_.Text(nest_.body[id].args[0]), ";");
      return absl::OkStatus();
    };
    static const std::vector<uint32_t> kNone;
    return AtGroups(nodes_.inputs, [&] {
      return body_.WriteGroup({nodes_.inputs, kNone, then, ""});
    });
  }

  // Each value becomes the running one of its group.
  absl::Status ScanGroups(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    const std::string& s = cells_[id];
    ASSIGN_OR_RETURN(
        const std::string next,
        CombineText(node.reduce, node.dtype, absl::StrCat(s, "[u][e - 1]"),
                    absl::StrCat(s, "[u][e]")));
    EachElement(1, s, "[u][e] = ", next, ";");
    return absl::OkStatus();
  }

  std::string LastOfGroup(ScalarId id) const {
    return absl::StrCat("(", texts_.Type(id), ")", cells_[id], "[u][",
                        width_ - 1, "]");
  }

  // Each value becomes the running one.
  absl::Status Join(ScalarId id) {
    RETURN_IF_ERROR(ScanGroups(id));
    const std::string& s = cells_[id];
    const std::string carry = absl::StrCat("carry", id);
    const std::string type = texts_.Type(id);
    ASSIGN_OR_RETURN(const std::string join, texts_.Joiner(id));
    const std::string before = body_.Fresh("b");
    out_.Line(type, " ", before, "[", v_.unroll, "];");
    EachGroup(before, "[u] = ", LastOfGroup(id), ";");
    out_.Line(carry, " = k_scan<", v_.lanes, ", ", v_.lanes * v_.rows, ">(",
              before, ", ", carry, ", (", type, ")", texts_.Identity(id), ", ",
              join, ");");
    ASSIGN_OR_RETURN(
        const std::string running,
        texts_.Combined(id, before + "[u]",
                        absl::StrCat("(", type, ")", s, "[u][e]")));
    EachElement(0, s, "[u][e] = (", CTypeName(nest_.body[id].dtype), ")(",
                running, ");");
    return absl::OkStatus();
  }

  absl::Status Stores() {
    for (ScalarId id : nodes_.ops) body_.SetText(id, Cell(id));
    std::vector<uint32_t> stores;
    for (uint32_t s = 0; s < nest_.stores.size(); ++s) stores.push_back(s);
    return AtGroups(nodes_.stored, [&] {
      return body_.WriteGroup({nodes_.stored, stores,
                               [](CudaBody::Place) { return absl::OkStatus(); },
                               "live"});
    });
  }

  const CudaScans& v_;
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const SymExpr groups_;  // of a row
  const SymExpr rows_;
  const int width_;
  const int tile_;  // groups
  const ScannedNodes nodes_;
  const ScanTexts texts_;
  std::string begin_, end_;         // the groups of a block
  std::vector<std::string> cells_;  // arrays of the scans' values
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaScans(CudaBody& body,
                                        const CudaScans& variant) {
  return ScansWriter(body, variant).Run();
}

}  // namespace kiln

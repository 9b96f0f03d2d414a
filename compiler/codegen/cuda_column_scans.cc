#include "compiler/codegen/cuda_column_scans.h"

#include <algorithm>
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

class ColumnScansWriter {
 public:
  ColumnScansWriter(CudaBody& body, const CudaColumnScans& variant)
      : v_(variant),
        body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        size_(facts_.extents[facts_.num_axes - 1]),
        columns_(PointsOf(body, 0, facts_.num_outer)),
        blocks_(CeilDiv(columns_, int64_t{v_.across}) * v_.parts),
        nodes_(NodesOfScans(body.nest, body.facts)),
        texts_(body.nest),
        nothing_kept_(nest_.body.size()) {}

  absl::StatusOr<CudaGrid> Run() {
    Place();
    for (ScalarId id : nodes_.outer) RETURN_IF_ERROR(body_.Node(id));
    RETURN_IF_ERROR(Totals());
    for (ScalarId id : nodes_.ops) RETURN_IF_ERROR(JoinDown(id));
    if (v_.parts > 1) RETURN_IF_ERROR(JoinParts());
    RETURN_IF_ERROR(Running());
    if (v_.parts > 1) {
      out_.Line("k_leave<", v_.across * v_.down, ">(counters, (unsigned)",
                body_.Index(blocks_), ");");
    }
    return CudaGrid{.blocks = blocks_};
  }

 private:
  // The thread's column, and its stretch of it.
  void Place() {
    const char* type = body_.index_type();
    const std::string n = body_.Index(size_);
    const std::string own = body_.Index(
        CeilDiv(CeilDiv(size_, int64_t{v_.parts}), int64_t{v_.down}));
    out_.Line("const int x = (int)threadIdx.x % ", v_.across, ";");
    out_.Line("const int y = (int)threadIdx.x / ", v_.across, ";");
    out_.Line("const unsigned block = ",
              v_.parts > 1 ? "k_ticket(counters)" : "blockIdx.x", ";");
    out_.Line("const unsigned part = block % ", v_.parts, "u;");
    out_.Line("const ", type, " column = (", type, ")(block / ", v_.parts,
              "u) * ", v_.across, " + x;");
    out_.Line("const bool live = column < ", body_.Index(columns_), ";");
    out_.Line("const ", type, " p = live ? column : 0;");
    SplitPoint(body_, "p", 0, facts_.num_outer);
    out_.Line("const long long from = ((long long)part * ", v_.down, " + y) * ",
              own, ";");
    out_.Line("const ", type, " begin = (", type, ")(from < ", n,
              " ? from : ", n, ");");
    out_.Line("const ", type, " end = (", type, ")(from + ", own, " < ", n,
              " ? from + ", own, " : ", n, ");");
  }

  // A loop over the stretch, `unroll` points at a time.
  absl::Status Over(const std::vector<ScalarId>& nodes,
                    absl::FunctionRef<absl::Status()> step) {
    out_.Open("for (", body_.index_type(),
              " r = begin; r < end; r += ", v_.unroll, ")");
    RETURN_IF_ERROR(WriteUnrolled(body_, {v_.unroll, 1, "end"}, nodes,
                                  nothing_kept_, step));
    out_.Close();
    return absl::OkStatus();
  }

  // One more value of each scan, into total<id>.
  absl::Status Step() {
    for (ScalarId id : nodes_.inputs) RETURN_IF_ERROR(body_.Node(id));
    for (ScalarId id : nodes_.ops) {
      const std::string total = absl::StrCat("total", id);
      ASSIGN_OR_RETURN(
          const std::string next,
          texts_.Combined(id, total,
                          absl::StrCat("(", texts_.Type(id), ")",
                                       body_.Text(nest_.body[id].args[0]))));
      out_.Line(total, " = ", next, ";");
    }
    return absl::OkStatus();
  }

  absl::Status Totals() {
    for (ScalarId id : nodes_.ops)
      out_.Line(texts_.Type(id), " total", id, " = ", texts_.Identity(id), ";");
    return Over(nodes_.inputs, [&] { return Step(); });
  }

  // total<id> becomes what the block's stretches above this one come to, and
  // all<id> what all of them do.
  absl::Status JoinDown(ScalarId id) {
    const std::string type = texts_.Type(id);
    const std::string cells = absl::StrCat("cells", id);
    out_.Line("__shared__ ", type, " ", cells, "[", v_.across * v_.down, "];");
    out_.Line(cells, "[threadIdx.x] = total", id, ";");
    out_.Line("__syncthreads();");
    out_.Line(type, " all", id, " = ", texts_.Identity(id), ";");
    out_.Open("for (int row = 0; row < ", v_.down, "; ++row)");
    out_.Line("if (row == y) total", id, " = all", id, ";");
    ASSIGN_OR_RETURN(
        const std::string next,
        texts_.Combined(id, absl::StrCat("all", id),
                        absl::StrCat(cells, "[row * ", v_.across, " + x]")));
    out_.Line("all", id, " = ", next, ";");
    out_.Close();
    return absl::OkStatus();
  }

  // Publishes what the part comes to, and puts the parts before it in front.
  absl::Status JoinParts() {
    SymExpr points = 1;
    for (uint32_t a = 0; a < facts_.num_outer; ++a)
      points = points * facts_.extents[a];
    for (ScalarId id : nodes_.ops) {
      const SymExpr before = PartialsBefore(nest_, id, points, v_.parts);
      out_.Line(texts_.Type(id), "* const sums", id, " = (", texts_.Type(id),
                "*)(w",
                before.Is(0) ? "" : absl::StrCat(" + ", body_.Index(before)),
                ") + p * (long long)", v_.parts, ";");
      out_.Line("if (y == 0 && live) sums", id, "[part] = all", id, ";");
    }
    out_.Line("__threadfence();");
    out_.Line("__syncthreads();");
    out_.Line("if (threadIdx.x == 0) k_raise(counters + 2 + block);");
    for (ScalarId id : nodes_.ops) {
      ASSIGN_OR_RETURN(const std::string join, texts_.Joiner(id));
      const std::string type = texts_.Type(id);
      out_.Line("const ", type, " before", id, " = k_column_before<", v_.across,
                ", ", v_.down, ">(sums", id,
                ", counters + 2 + (block - part), part, (", type, ")",
                texts_.Identity(id), ", ", join, ");");
      ASSIGN_OR_RETURN(const std::string from,
                       texts_.Combined(id, absl::StrCat("before", id),
                                       absl::StrCat("total", id)));
      out_.Line("total", id, " = ", from, ";");
    }
    return absl::OkStatus();
  }

  absl::Status Running() {
    std::vector<ScalarId> nodes = nodes_.inputs;
    for (ScalarId id : nodes_.stored)
      if (std::find(nodes.begin(), nodes.end(), id) == nodes.end())
        nodes.push_back(id);
    std::vector<uint32_t> stores;
    for (uint32_t s = 0; s < nest_.stores.size(); ++s) stores.push_back(s);
    return Over(nodes, [&]() -> absl::Status {
      RETURN_IF_ERROR(Step());
      for (ScalarId id : nodes_.ops)
        body_.SetText(id, absl::StrCat("((", CTypeName(nest_.body[id].dtype),
                                       ")total", id, ")"));
      return body_.WriteGroup({nodes_.stored, stores,
                               [](CudaBody::Place) { return absl::OkStatus(); },
                               "live"});
    });
  }

  const CudaColumnScans& v_;
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const SymExpr& size_;  // of a column
  const SymExpr columns_;
  const SymExpr blocks_;
  const ScannedNodes nodes_;
  const ScanTexts texts_;
  const std::vector<std::string> nothing_kept_;
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaColumnScans(CudaBody& body,
                                              const CudaColumnScans& variant) {
  return ColumnScansWriter(body, variant).Run();
}

}  // namespace kiln

#include "compiler/codegen/cuda_short_scans.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/load_ahead.h"
#include "compiler/codegen/scan_texts.h"
#include "compiler/codegen/scanned_nodes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class ShortScansWriter {
 public:
  ShortScansWriter(CudaBody& body, const CudaShortScans& variant)
      : v_(variant),
        threads_(variant.lanes * variant.rows),
        body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        size_(facts_.extents[facts_.num_axes - 1]),
        rows_(PointsOf(body, 0, facts_.num_outer)),
        nodes_(NodesOfScans(body.nest, body.facts)),
        texts_(body.nest) {}

  absl::StatusOr<CudaGrid> Run() {
    const char* type = body_.index_type();
    for (ScalarId id : nodes_.ops)
      out_.Line("__shared__ ", CTypeName(nest_.body[id].dtype), " cells", id,
                "[", v_.rows * v_.lanes * v_.run, "];");
    out_.Line("const int t = (int)threadIdx.x;");
    OpenGridLoop(body_, "first",
                 absl::StrCat("(unsigned ", type, ")blockIdx.x * ", v_.rows),
                 rows_, v_.rows, false);
    const std::string n = body_.Index(size_), rows = body_.Index(rows_);
    out_.Line("const int block_rows = ", rows, " - (", type, ")first < ",
              v_.rows, " ? (int)(", rows, " - (", type, ")first) : ", v_.rows,
              ";");
    out_.Line("const ", type, " base = (", type, ")first * ", n, ";");
    out_.Line("const int points = block_rows * (int)", n, ";");
    RETURN_IF_ERROR(Values());
    out_.Line("__syncthreads();");
    RETURN_IF_ERROR(Scans());
    out_.Line("__syncthreads();");
    RETURN_IF_ERROR(Stores());
    // The next rows' values go where these are still read.
    if (!body_.one_turn) out_.Line("__syncthreads();");
    out_.Close();
    return CudaGrid{CeilDiv(rows_, int64_t{v_.rows}), v_.blocks};
  }

 private:
  // One after the other, `unroll` points that a thread takes, threads_ apart.
  void OpenPoints() {
    out_.Open("for (int tile = t; tile < points; tile += ",
              threads_ * v_.unroll, ")");
  }
  void OpenPoint() {
    out_.Line("#pragma unroll");
    out_.Open("for (int u = 0; u < ", v_.unroll, "; ++u)");
    out_.Line("const int p = tile + u * ", threads_, ";");
    out_.Open("if (p < points)");
    SplitPoint(body_, "(base + p)", 0, facts_.num_axes);
  }
  void ClosePoint() {
    out_.Close();
    out_.Close();
  }

  absl::Status Each(const std::vector<ScalarId>& first,
                    const std::vector<ScalarId>& nodes,
                    absl::FunctionRef<absl::Status()> then) {
    OpenPoints();
    std::vector<ScalarId> all = first;
    all.insert(all.end(), nodes.begin(), nodes.end());
    const std::vector<std::string> nothing_kept(nest_.body.size());
    LoadsAhead ahead(body_, all, nothing_kept);
    const bool together = v_.unroll > 1 && !ahead.loads().empty();
    if (together) {
      ahead.Declare(v_.unroll);
      OpenPoint();
      ahead.Load("u");
      ClosePoint();
    }
    OpenPoint();
    if (together) ahead.Read("u");
    for (ScalarId id : all) RETURN_IF_ERROR(body_.Node(id));
    RETURN_IF_ERROR(then());
    ClosePoint();
    ahead.Forget();
    out_.Close();
    return absl::OkStatus();
  }

  absl::Status Values() {
    return Each(nodes_.outer, nodes_.inputs, [&] {
      for (ScalarId id : nodes_.ops)
        out_.Line("cells", id, "[p] = ", body_.Text(nest_.body[id].args[0]),
                  ";");
      return absl::OkStatus();
    });
  }

  // A thread's run becomes the running values.
  absl::Status Scans() {
    const std::string n = absl::StrCat("(int)", body_.Index(size_));
    out_.Open();
    out_.Line("const int column = t % ", v_.lanes, " * ", v_.run, ";");
    out_.Line("const int from = t / ", v_.lanes, " * ", n, " + column;");
    out_.Line("const int count = t / ", v_.lanes, " < block_rows ? ", n,
              " - column : 0;");
    for (ScalarId id : nodes_.ops) RETURN_IF_ERROR(ScanRun(id));
    out_.Close();
    return absl::OkStatus();
  }

  absl::Status ScanRun(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    const std::string type = texts_.Type(id);
    const std::string cells = absl::StrCat("cells", id);
    const std::string run = body_.Fresh("run");
    out_.Line(CTypeName(node.dtype), " ", run, "[", v_.run, "];");
    out_.Line("#pragma unroll");
    out_.Line("for (int e = 0; e < ", v_.run, "; ++e) ", run,
              "[e] = e < count ? ", cells,
              "[from + e] : ", IdentityText(node.reduce, node.dtype), ";");
    ASSIGN_OR_RETURN(
        const std::string next,
        CombineText(node.reduce, node.dtype, absl::StrCat(run, "[e - 1]"),
                    absl::StrCat(run, "[e]")));
    out_.Line("#pragma unroll");
    out_.Line("for (int e = 1; e < ", v_.run, "; ++e) ", run, "[e] = ", next,
              ";");
    ASSIGN_OR_RETURN(const std::string join, texts_.Joiner(id));
    const std::string before = body_.Fresh("b");
    const std::string none = absl::StrCat("(", type, ")", texts_.Identity(id));
    out_.Line(type, " ", before, "[1] = {(", type, ")", run, "[", v_.run - 1,
              "]};");
    out_.Line("k_scan<", v_.lanes, ", ", threads_, ">(", before, ", ", none,
              ", ", none, ", ", join, ");");
    ASSIGN_OR_RETURN(const std::string running,
                     texts_.Combined(id, before + "[0]",
                                     absl::StrCat("(", type, ")", run, "[e]")));
    out_.Line("#pragma unroll");
    out_.Line("for (int e = 0; e < ", v_.run, "; ++e) if (e < count) ", cells,
              "[from + e] = (", CTypeName(node.dtype), ")(", running, ");");
    return absl::OkStatus();
  }

  absl::Status Stores() {
    for (ScalarId id : nodes_.ops)
      body_.SetText(id, absl::StrCat("cells", id, "[p]"));
    return Each(nodes_.outer, nodes_.stored, [&]() -> absl::Status {
      for (uint32_t s = 0; s < nest_.stores.size(); ++s)
        RETURN_IF_ERROR(body_.StoreOne(s));
      return absl::OkStatus();
    });
  }

  const CudaShortScans& v_;
  const int threads_;
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const SymExpr& size_;  // of a row
  const SymExpr rows_;
  const ScannedNodes nodes_;
  const ScanTexts texts_;
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaShortScans(CudaBody& body,
                                             const CudaShortScans& variant) {
  return ShortScansWriter(body, variant).Run();
}

}  // namespace kiln

#include "compiler/codegen/cuda_counts.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/load_ahead.h"
#include "compiler/schedule/kernel_passes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class CountsWriter {
 public:
  CountsWriter(CudaBody& body, const CudaCounts& variant,
               const RowCounts& counts)
      : v_(variant),
        counts_(counts),
        body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        last_(facts_.num_outer - 1),
        groups_(body.Steps(last_)),
        nodes_(PlanPasses(body.nest, facts_, {}).last) {}

  absl::StatusOr<CudaGrid> Run() {
    const char* type = body_.index_type();
    const int64_t each = int64_t{v_.threads} * v_.unroll * v_.steps;
    const SymExpr parts = CeilDiv(groups_, each);
    out_.Line("__shared__ int cells[", v_.cells, "];");
    out_.Line("const int t = (int)threadIdx.x;");
    ForCells([&] { out_.Line("cells[c] = 0;"); });
    out_.Line("__syncthreads();");
    out_.Line("const ", type, " row = (", type, ")(blockIdx.x / (unsigned)",
              body_.Index(parts), ");");
    out_.Line("const ", type, " begin = (", type, ")(blockIdx.x % (unsigned)",
              body_.Index(parts), ") * ", each, ";");
    SplitPoint(body_, "row", 0, last_);
    RETURN_IF_ERROR(Points());
    out_.Line("__syncthreads();");
    const std::string cell = absl::StrCat(body_.BufferName(counts_.buffer),
                                          " + ", body_.Index(counts_.first));
    ForCells([&] {
      out_.Line("if (cells[c] != 0) atomicAdd(", cell, " + c, cells[c]);");
    });
    return CudaGrid{.blocks = PointsOf(body_, 0, last_) * parts};
  }

 private:
  template <typename F>
  void ForCells(F statement) {
    out_.Open("for (int c = t; c < ", v_.cells, "; c += ", v_.threads, ")");
    statement();
    out_.Close();
  }

  absl::Status Points() {
    out_.Open("for (int step = 0; step < ", v_.steps, "; ++step)");
    const std::vector<std::string> nothing_kept(nest_.body.size());
    LoadsAhead ahead(body_, nodes_, nothing_kept);
    if (!ahead.loads().empty()) {
      ahead.Declare(v_.unroll);
      OpenGroup();
      ahead.Load("u");
      CloseGroup();
    }
    OpenGroup();
    if (!ahead.loads().empty()) ahead.Read("u");
    static const std::vector<uint32_t> kNone;
    const auto then = [&](CudaBody::Place place) {
      if (place != CudaBody::Place::kNeighbour) return absl::OkStatus();
      for (size_t s = 0; s < nest_.stores.size(); ++s)
        out_.Line("atomicAdd(cells + ", body_.Index(counts_.cell[s]), ", ",
                  body_.Text(nest_.stores[s].value), ");");
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(body_.WriteGroup({nodes_, kNone, then, ""}));
    CloseGroup();
    out_.Close();
    return absl::OkStatus();
  }

  void OpenGroup() {
    const char* type = body_.index_type();
    out_.Line("#pragma unroll");
    out_.Open("for (int u = 0; u < ", v_.unroll, "; ++u)");
    out_.Line("const ", type, " r = begin + (step * ", v_.unroll, " + u) * ",
              v_.threads, " + t;");
    out_.Open("if (r < ", body_.Index(groups_), ")");
    SplitPoint(body_, "r", last_, last_ + 1);
  }
  void CloseGroup() {
    out_.Close();
    out_.Close();
  }

  const CudaCounts& v_;
  const RowCounts& counts_;
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const uint32_t last_;   // axis
  const SymExpr groups_;  // of a row
  const std::vector<ScalarId> nodes_;
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaCounts(CudaBody& body, const CudaCounts& v,
                                         const RowCounts& counts) {
  return CountsWriter(body, v, counts).Run();
}

}  // namespace kiln

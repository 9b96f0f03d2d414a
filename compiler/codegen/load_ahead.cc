#include "compiler/codegen/load_ahead.h"

#include "compiler/codegen/cuda_grid.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

void OpenPoint(CudaBody& body, const UnrolledPoints& points, bool written_out) {
  CWriter& out = body.out;
  const bool alone = points.unroll == 1;
  if (alone) {
    out.Open();
  } else {
    out.Line("#pragma unroll", written_out ? "" : " 1");
    out.Open("for (int u = 0; u < ", points.unroll, "; ++u)");
    out.Line("const ", body.index_type(), " g = r + u * ", points.stride, ";");
    if (points.all_below) {
      out.Open();
    } else {
      out.Open("if (g < ", points.limit, ")");
    }
  }
  SplitPoint(body, alone ? "r" : "g", body.facts.num_outer,
             body.facts.num_axes);
}

void ClosePoint(CudaBody& body, const UnrolledPoints& points) {
  body.out.Close();
  if (points.unroll > 1) body.out.Close();
}

}  // namespace

absl::Status WriteUnrolled(CudaBody& body, const UnrolledPoints& points,
                           const std::vector<ScalarId>& nodes,
                           const std::vector<std::string>& kept,
                           absl::FunctionRef<absl::Status()> step) {
  LoadsAhead ahead(body, nodes, kept);
  const bool together = points.unroll > 1 && !ahead.loads().empty();
  if (together) {
    ahead.Declare(points.unroll);
    OpenPoint(body, points, true);
    ahead.Load("u");
    ClosePoint(body, points);
  }
  OpenPoint(body, points,
            AreWrittenOut(
                body.nest, body.facts, nodes,
                [&](ScalarId id) { return !kept[id].empty(); }, points.stores));
  if (together) ahead.Read("u");
  RETURN_IF_ERROR(step());
  ClosePoint(body, points);
  ahead.Forget();
  return absl::OkStatus();
}

}  // namespace kiln

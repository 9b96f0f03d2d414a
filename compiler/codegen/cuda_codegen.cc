#include "compiler/codegen/cuda_codegen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/codegen/cuda_column_scans.h"
#include "compiler/codegen/cuda_columns.h"
#include "compiler/codegen/cuda_counts.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/codegen/cuda_products.h"
#include "compiler/codegen/cuda_rows.h"
#include "compiler/codegen/cuda_scans.h"
#include "compiler/codegen/cuda_selections.h"
#include "compiler/codegen/cuda_short_scans.h"
#include "compiler/codegen/cuda_sorts.h"
#include "compiler/codegen/cuda_tallies.h"
#include "compiler/codegen/cuda_tiles.h"
#include "compiler/codegen/load_ahead.h"
#include "compiler/schedule/held_rows.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/matrix_product.h"
#include "compiler/schedule/row_counts.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class CudaKernelWriter {
 public:
  CudaKernelWriter(const PlannedKernel& kernel,
                   const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                   const Target& target, const NestFacts& facts,
                   KernelSource& source)
      : kernel_(kernel),
        nest_(kernel.nest),
        facts_(facts),
        source_(source),
        body_(kernel.nest, facts, buffers, shapes),
        out_(body_.out) {
    body_.vector_atomics = target.vector_atomics;
  }

  // `function`: the name of a part's device function; empty: a kernel.
  absl::Status Run(absl::string_view function = "") {
    body_.is_part = !function.empty();
    body_.most_written_twice = MostWrittenTwice();
    body_.one_turn = body_.is_part || CoversAllPoints(kernel_.variant);
    Header(function);
    ASSIGN_OR_RETURN(
        const CudaGrid grid,
        std::visit([&](const auto& variant) { return Body(variant); },
                   kernel_.variant));
    out_.Close();
    source_.text = out_.Take();
    source_.block[0] = static_cast<uint32_t>(ThreadsOf(kernel_.variant));
    source_.grid = {grid.blocks, 1, 1};
    source_.blocks_per_multiprocessor =
        static_cast<uint32_t>(grid.blocks_per_multiprocessor);
    source_.shared_bytes = static_cast<uint32_t>(grid.shared_bytes);
    return absl::OkStatus();
  }

 private:
  void Header(absl::string_view function) {
    std::string params;
    std::vector<bool> written(body_.buffers.size(), false);
    for (const Store& store : nest_.stores) written[store.buffer] = true;
    // Of each scalar argument whether it tells random operators apart: those are
    // constants of a kernel (write_kernels.cc), and need all of their 64 bits.
    std::vector<bool> numbers;
    const auto add = [&](const auto&... parts) {
      absl::StrAppend(&params, params.empty() ? "" : ", ", parts...);
    };
    for (const KernelParam& param : facts_.params) {
      switch (param.kind) {
        case KernelParam::Kind::kBuffer:
          add(written[param.buffer] ? "" : "const ",
              CTypeName(body_.buffers[param.buffer].dtype), "* ",
              body_.BufferName(param.buffer));
          break;
        case KernelParam::Kind::kScalar:
          add("long long n", numbers.size());
          numbers.push_back(param.scalar.is_constant());
          break;
        case KernelParam::Kind::kSeed:
        case KernelParam::Kind::kSeedSlot:
          add("const long long* seed_slot");
          break;
      }
    }
    if (kernel_.workspace.partials != kNoBuffer) {
      add("unsigned char* w");
      add("unsigned* counters");
    }
    if (body_.is_part) {
      out_.Open("static __device__ __forceinline__ void ", function, "(",
                params, params.empty() ? "" : ", ", "unsigned block)");
    } else {
      out_.Open("extern \"C\" __global__ void __launch_bounds__(",
                ThreadsOf(kernel_.variant), AloneText(), ") ", ClusterText(),
                kSymbolPlaceholder, "(", params, ")");
      if (source_.waits_for_work_before) out_.Line("k_wait_for_work_before();");
    }
    for (size_t s = 0; s < numbers.size(); ++s) {
      const char* type = numbers[s] ? "long long" : body_.index_type();
      out_.Line("const ", type, " s", s, " = (", type, ")n", s, ";");
    }
    if (facts_.uses_seed) out_.Line("const long long seed = *seed_slot;");
  }

  // The blocks that a multiprocessor must be able to hold: with one, ptxas spills
  // no register to make room for a second.
  absl::string_view AloneText() const {
    return std::visit(
        [](const auto& v) -> absl::string_view {
          if constexpr (requires { v.alone; }) return v.alone != 0 ? ", 1" : "";
          return "";
        },
        kernel_.variant);
  }

  size_t MostWrittenTwice() const {
    return std::visit(
        [](const auto& v) -> size_t {
          if constexpr (requires { v.whole; })
            return static_cast<size_t>(v.whole);
          return 0;
        },
        kernel_.variant);
  }

  std::string ClusterText() const {
    const auto* rows = std::get_if<CudaRows>(&kernel_.variant);
    if (rows == nullptr || rows->cluster == 1) return "";
    return absl::StrCat("__cluster_dims__(", rows->cluster, ", 1, 1) ");
  }

  Vectors VectorsOn(uint32_t axis, int width, bool peel) const {
    return MakeVectors(nest_, facts_, body_.buffers, body_.shapes, axis, width,
                       peel);
  }

  absl::StatusOr<CudaGrid> Body(const CudaTiles& v) {
    CudaGrid grid;
    RETURN_IF_ERROR(
        WriteCudaTiles(body_, v, PlanPasses(nest_, facts_, {}), grid.blocks));
    return grid;
  }
  absl::StatusOr<CudaGrid> Body(const CudaRows& v) {
    body_.SetVectors(VectorsOn(facts_.num_axes - 1, v.vector, v.peel != 0));
    body_.divides_by_branch = v.branch != 0;
    return WriteCudaRows(body_, v, RowPasses(v, nest_, facts_));
  }
  absl::StatusOr<CudaGrid> Body(const CudaColumns& v) {
    if (facts_.num_outer > 0)
      body_.SetVectors(VectorsOn(facts_.num_outer - 1, v.vector, v.peel != 0));
    return WriteCudaColumns(body_, v, PlanPasses(nest_, facts_, {}));
  }
  absl::StatusOr<CudaGrid> Body(const CudaScans& v) {
    body_.SetVectors(VectorsOn(facts_.num_axes - 1, v.vector, v.peel != 0));
    return WriteCudaScans(body_, v);
  }
  absl::StatusOr<CudaGrid> Body(const CudaShortScans& v) {
    body_.SetVectors({facts_.num_axes - 1, 1, 0, false});
    return WriteCudaShortScans(body_, v);
  }
  absl::StatusOr<CudaGrid> Body(const CudaColumnScans& v) {
    return WriteCudaColumnScans(body_, v);
  }
  absl::StatusOr<CudaGrid> Body(const CudaSorts& v) {
    body_.SetVectors(VectorsOn(facts_.num_axes - 1, v.vector, false));
    return WriteCudaSorts(body_, v);
  }
  absl::StatusOr<CudaGrid> Body(const CudaSelections& v) {
    body_.SetVectors(VectorsOn(facts_.num_axes - 1, v.vector, false));
    return WriteCudaSelections(body_, v);
  }
  absl::StatusOr<CudaGrid> Body(const CudaTallies& v) {
    body_.SetVectors({facts_.num_axes - 1, 1, 0, false});
    return WriteCudaTallies(body_, v);
  }
  absl::StatusOr<CudaGrid> Body(const CudaCounts& v) {
    body_.SetVectors(VectorsOn(facts_.num_outer - 1, v.vector, false));
    const std::optional<RowCounts> counts = RowCountsOf(nest_, facts_);
    if (!counts.has_value() || counts->cells > v.cells) {
      return absl::InternalError(
          absl::StrCat("kernel ", kernel_.label, ": counts of ", v.cells,
                       " cells, which it does not have"));
    }
    return WriteCudaCounts(body_, v, *counts);
  }
  absl::StatusOr<CudaGrid> Body(const CudaProducts& v) {
    const std::optional<MatrixProduct> product =
        MatrixProductOf(nest_, facts_, body_.buffers);
    if (!product.has_value()) {
      return absl::InternalError(absl::StrCat(
          "kernel ", kernel_.label, ": found no product of matrices"));
    }
    return WriteCudaProducts(body_, v, *product, PlanPasses(nest_, facts_, {}));
  }
  absl::StatusOr<CudaGrid> Body(const CudaSerial& v) {
    return WriteCudaSerial(body_, v, PlanPasses(nest_, facts_, {}));
  }

  // `unroll` groups a thread, in a grid-stride loop.
  absl::StatusOr<CudaGrid> Body(const CudaPoints& v) {
    if (facts_.num_outer > 0)
      body_.SetVectors(VectorsOn(facts_.num_outer - 1, v.vector, v.peel != 0));
    const KernelPasses passes = PlanPasses(nest_, facts_, {});
    const SymExpr groups = PointsOf(body_, 0, facts_.num_outer);
    const std::string limit = body_.Index(groups);
    const int64_t each = int64_t{v.threads} * v.unroll;
    OpenGridLoop(body_, "first",
                 absl::StrCat("(unsigned ", body_.index_type(), ")",
                              body_.is_part ? "block" : "blockIdx.x", " * ",
                              each, " + threadIdx.x"),
                 groups, each, true);
    const std::vector<std::string> nothing_kept(nest_.body.size());
    LoadsAhead ahead(body_, passes.last, nothing_kept);
    if (v.unroll > 1 && !ahead.loads().empty()) {
      ahead.Declare(v.unroll);
      OpenGroup(v, limit);
      ahead.Load("u");
      CloseGroup(v);
      OpenGroup(v, limit);
      ahead.Read("u");
    } else {
      OpenGroup(v, limit);
    }
    const auto nothing = [](CudaBody::Place) { return absl::OkStatus(); };
    RETURN_IF_ERROR(
        body_.WriteGroup({passes.last, passes.last_stores, nothing, "", true}));
    CloseGroup(v);
    out_.Close();
    return CudaGrid{CeilDiv(groups, each), v.blocks};
  }

  void OpenGroup(const CudaPoints& v, const std::string& limit) {
    if (v.unroll == 1) {
      SplitPoint(body_, "first", 0, facts_.num_outer);
      return;
    }
    const std::string type = absl::StrCat("unsigned ", body_.index_type());
    out_.Line("#pragma unroll");
    out_.Open("for (int u = 0; u < ", v.unroll, "; ++u)");
    out_.Line("const ", type, " g = first + u * ", v.threads, ";");
    out_.Open("if (g < (", type, ")", limit, ")");
    SplitPoint(body_, "g", 0, facts_.num_outer);
  }
  void CloseGroup(const CudaPoints& v) {
    if (v.unroll == 1) return;
    out_.Close();
    out_.Close();
  }

  template <typename Other>
  absl::StatusOr<CudaGrid> Body(const Other&) {
    return absl::InternalError(absl::StrCat(
        "kernel ", kernel_.label, ": found variant \"",
        VariantName(kernel_.variant), "\", expected one for CUDA"));
  }

  const PlannedKernel& kernel_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  KernelSource& source_;
  CudaBody body_;
  CWriter& out_;
};

}  // namespace

absl::Status WriteCudaKernel(const PlannedKernel& kernel,
                             const std::vector<Buffer>& buffers,
                             const ShapeEnv& shapes, const Target& target,
                             NestFacts facts, KernelSource& source) {
  return CudaKernelWriter(kernel, buffers, shapes, target, facts, source).Run();
}

absl::Status WriteCudaFunction(const PlannedKernel& kernel,
                               const std::vector<Buffer>& buffers,
                               const ShapeEnv& shapes, const Target& target,
                               const NestFacts& facts, absl::string_view name,
                               KernelSource& source) {
  return CudaKernelWriter(kernel, buffers, shapes, target, facts, source)
      .Run(name);
}

}  // namespace kiln

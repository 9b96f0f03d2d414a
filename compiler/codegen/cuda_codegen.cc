#include "compiler/codegen/cuda_codegen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/codegen/cuda_reductions.h"
#include "compiler/codegen/cuda_shape.h"
#include "compiler/codegen/cuda_tiles.h"
#include "compiler/codegen/kernel_passes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

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

  // `function`: the name of a part's device function; empty: a kernel.
  absl::Status Run(absl::string_view function = "") {
    body_.is_part = !function.empty();
    shape_ = ChooseCudaShape(tiling_, body_);
    passes_ = PlanPasses(
        nest_, facts_,
        shape_.keep ? BetweenPasses::kKeep : BetweenPasses::kComputeAgain);
    Header(function);
    ASSIGN_OR_RETURN(const CudaGrid grid, Body());
    out_.Close();
    source_.text = out_.Take();
    source_.block[0] = static_cast<uint32_t>(shape_.threads);
    source_.grid = {grid.blocks, 1, 1};
    source_.blocks_per_multiprocessor = grid.blocks_per_multiprocessor;
    return absl::OkStatus();
  }

 private:
  void Header(absl::string_view function) {
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
    if (body_.is_part) {
      out_.Open("static __device__ __forceinline__ void ", function, "(",
                params, params.empty() ? "" : ", ", "unsigned block)");
    } else {
      out_.Open("extern \"C\" __global__ void __launch_bounds__(",
                shape_.threads, ") ", kSymbolPlaceholder, "(", params, ")");
      if (source_.waits_for_work_before) out_.Line("k_wait_for_work_before();");
    }
    for (int s = 0; s < scalars; ++s)
      out_.Line("const ", body_.index_type(), " s", s, " = (",
                body_.index_type(), ")n", s, ";");
    if (facts_.uses_seed)
      out_.Line("const long long seed = (long long)n", scalars, ";");
  }

  absl::StatusOr<CudaGrid> Body() {
    switch (shape_.mapping) {
      case Mapping::kPointwise:
        return Points();
      case Mapping::kTile2d: {
        CudaGrid grid;
        RETURN_IF_ERROR(
            WriteCudaTiles(body_, tiling_.tile_axis, passes_, grid.blocks));
        return grid;
      }
      case Mapping::kRow:
      case Mapping::kColumn:
      case Mapping::kSerial:
        return WriteCudaReduction(body_, shape_, passes_);
    }
    return absl::InternalError("a kernel without a mapping");
  }

  // A group of neighbours a thread, in a grid-stride loop.
  absl::StatusOr<CudaGrid> Points() {
    const std::string n = body_.Index(shape_.outer_points);
    const int64_t each = int64_t{shape_.threads} * body_.width;
    OpenGridLoop(body_, "first",
                 GlobalThread(body_, shape_.threads, body_.width), n, each);
    if (body_.cut)
      out_.Line("const int m = ", n, " - first < ", body_.width, " ? (int)(", n,
                " - first) : ", body_.width, ";");
    SplitPoint(body_, "first", 0, facts_.num_outer);
    const auto nothing = [](bool) { return absl::OkStatus(); };
    RETURN_IF_ERROR(
        body_.WriteGroup({passes_.last, passes_.last_stores, nothing, ""}));
    out_.Close();
    return LoopGrid(CeilDiv(shape_.outer_points, each), shape_.threads);
  }

  const KernelTiling tiling_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  KernelSource& source_;
  CudaBody body_;
  CWriter& out_;
  CudaShape shape_;
  KernelPasses passes_;
};

}  // namespace

absl::Status WriteCudaKernel(const PlannedKernel& kernel,
                             const std::vector<Buffer>& buffers,
                             const ShapeEnv& shapes, const Target& target,
                             NestFacts facts, KernelSource& source) {
  return CudaKernelWriter(kernel, buffers, shapes, facts, source).Run();
}

absl::Status WriteCudaFunction(const PlannedKernel& kernel,
                               const std::vector<Buffer>& buffers,
                               const ShapeEnv& shapes, const NestFacts& facts,
                               absl::string_view name, KernelSource& source) {
  return CudaKernelWriter(kernel, buffers, shapes, facts, source).Run(name);
}

}  // namespace kiln

#include "compiler/codegen/cuda_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda_tiles.h"

namespace kiln {
namespace {

// Elements of a row that a thread may keep between passes. More than this
// spills registers and, written out, takes NVRTC seconds.
constexpr int64_t kMaxKept = 32;

// Of sm_80, sm_90 and sm_100; others hold fewer. Source: CUDA C++ Programming
// Guide, "Technical Specifications per Compute Capability".
constexpr int kThreadsOfMultiprocessor = 2048;
constexpr int kRounds = 4;

Mapping ChooseMapping(const KernelTiling& tiling, const CudaBody& body) {
  const NestFacts& facts = body.facts;
  if (facts.has_scan) return Mapping::kSerial;
  if (facts.reduced == 0) {
    const bool tiles = tiling.mapping == Mapping::kTile2d &&
                       WantsTiles(body, tiling.tile_axis);
    return tiles ? Mapping::kTile2d : Mapping::kPointwise;
  }
  const bool shared =
      tiling.mapping == Mapping::kRow || tiling.mapping == Mapping::kColumn;
  return shared ? tiling.mapping : Mapping::kSerial;
}

void ChooseVector(const KernelTiling& tiling, Mapping mapping, CudaBody& body) {
  const NestFacts& facts = body.facts;
  body.width = std::max(1, tiling.vector_width);
  if (mapping == Mapping::kRow) {
    body.vector_axis = facts.num_axes - 1;
  } else if (facts.num_outer > 0 && mapping != Mapping::kSerial) {
    body.vector_axis = facts.num_outer - 1;
  }
  if (body.vector_axis == CudaBody::kNoAxis || mapping == Mapping::kTile2d) {
    body.width = 1;
  }
  if (body.width > 1 &&
      !IsMultiple(facts.extents[body.vector_axis], body.width)) {
    // A group may be cut off at the end of memory, not at the end of a row.
    body.cut = mapping == Mapping::kPointwise && facts.num_outer == 1;
    if (!body.cut) body.width = 1;
  }
}

}  // namespace

CudaShape ChooseCudaShape(const KernelTiling& tiling, CudaBody& body) {
  const NestFacts& facts = body.facts;
  CudaShape shape;
  shape.mapping = ChooseMapping(tiling, body);
  ChooseVector(tiling, shape.mapping, body);
  for (uint32_t a = 0; a < facts.num_axes; ++a) {
    SymExpr& total =
        a < facts.num_outer ? shape.outer_points : shape.reduced_points;
    total = total * facts.extents[a];
  }
  shape.threads = tiling.threads > 0 ? tiling.threads : 256;
  if (shape.mapping == Mapping::kTile2d) shape.threads = kTileThreads;
  shape.rows = std::max(1, tiling.rows_per_block);
  shape.per_row = std::max(1, shape.threads / shape.rows);
  // Shuffles want powers of two, whole warps beyond one.
  while ((shape.per_row & (shape.per_row - 1)) != 0) {
    shape.per_row &= shape.per_row - 1;
  }
  if (shape.mapping == Mapping::kRow || shape.mapping == Mapping::kColumn) {
    shape.threads = shape.per_row * shape.rows;
  }
  if (shape.mapping == Mapping::kRow && tiling.persistent &&
      shape.reduced_points.is_constant()) {
    const int64_t step = int64_t{shape.per_row} * body.width;
    shape.groups = (shape.reduced_points.constant() + step - 1) / step;
    shape.keep = shape.groups * body.width <= kMaxKept;
  }
  return shape;
}

CudaGrid LoopGrid(const SymExpr& blocks, int threads) {
  return {blocks, static_cast<uint32_t>(std::max(
                      1, kRounds * kThreadsOfMultiprocessor / threads))};
}

std::string GlobalThread(const CudaBody& body, int threads, int width) {
  return absl::StrCat("((unsigned ", body.index_type(), ")",
                      body.is_part ? "block" : "blockIdx.x", " * ", threads,
                      " + threadIdx.x)",
                      width == 1 ? "" : absl::StrCat(" * ", width));
}

void OpenGridLoop(CudaBody& body, const std::string& name,
                  const std::string& first, const std::string& limit,
                  int64_t each) {
  const std::string type = absl::StrCat("unsigned ", body.index_type());
  if (body.is_part) {
    body.out.Line("const ", type, " ", name, " = ", first, ";");
    body.out.Open("if (", name, " < (", type, ")", limit, ")");
    return;
  }
  body.out.Open("for (", type, " ", name, " = ", first, "; ", name, " < (",
                type, ")", limit, "; ", name, " += (", type, ")gridDim.x",
                each == 1 ? "" : absl::StrCat(" * ", each), ")");
}

void SplitPoint(CudaBody& body, const std::string& number, uint32_t first,
                uint32_t last) {
  if (first == last) return;
  const char* type = body.index_type();
  if (last - first == 1) {
    body.out.Line("const ", type, " ", CudaBody::AxisName(first), " = (", type,
                  ")", number, ";");
    return;
  }
  const std::string unsigned_type = absl::StrCat("unsigned ", type);
  const std::string q = body.Fresh("q");
  body.out.Line(unsigned_type, " ", q, " = (", unsigned_type, ")", number, ";");
  for (uint32_t axis = last; axis-- > first;) {
    const std::string extent = absl::StrCat(
        "(", unsigned_type, ")", body.Index(body.facts.extents[axis]));
    body.out.Line("const ", type, " ", CudaBody::AxisName(axis), " = (", type,
                  ")(", q, axis == first ? "" : absl::StrCat(" % ", extent),
                  ");");
    if (axis > first) body.out.Line(q, " /= ", extent, ";");
  }
}

}  // namespace kiln

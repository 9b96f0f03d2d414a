#include "compiler/schedule/flash_kernel.h"

#include <algorithm>

namespace kiln {
namespace {

using Part = FlashKernel::Part;

constexpr absl::string_view kPartNames[] = {"forward", "query_grad",
                                            "key_grads"};

int64_t WidestOf(const Attention& a) {
  return std::max(a.extents[Attention::kE].constant(),
                  a.extents[Attention::kV].constant());
}

// Bytes of a head's row in shared memory: whole tiles of 16 halves, and 16 bytes that
// put neighbouring rows in different banks.
int64_t RowBytes(const SymExpr& width) {
  return (width.constant() + 15) / 16 * 32 + 16;
}

enum class When : uint8_t { kAlways, kCausal, kDrops, kCausalDrops };

// The fastest variants on an H100 for heads of up to `widest`; the first that suits.
struct Row {
  int64_t widest;
  CudaFlash variant;
  When when = When::kAlways;
};
constexpr Row kForwardRows[] = {{64, {4, 2, 64}},
                                {96, {4, 2, 32, 1, 1}},
                                {128, {4, 2, 32}},
                                {192, {4, 1, 32, 1, 1}, When::kCausalDrops},
                                {192, {4, 1, 32}, When::kCausal},
                                {192, {8, 1, 64, 1, 1}},
                                {256, {8, 1, 64}}};
constexpr Row kQueryGradRows[] = {{64, {4, 2, 32, 1, 1}},
                                  {128, {4, 2, 32}},
                                  {192, {8, 1, 64}},
                                  {256, {8, 1, 32}}};
constexpr Row kKeyGradsRows[] = {{64, {4, 1, 64}, When::kCausalDrops},
                                 {64, {4, 2, 32}},
                                 {96, {4, 1, 32, 1, 1}},
                                 {128, {4, 1, 32}, When::kDrops},
                                 {128, {4, 1, 64}},
                                 {192, {4, 1, 32}},
                                 {256, {8, 2, 64, 4}}};

absl::Span<const Row> RowsOf(Part part) {
  switch (part) {
    case Part::kForward:
      return kForwardRows;
    case Part::kQueryGrad:
      return kQueryGradRows;
    case Part::kKeyGrads:
      return kKeyGradsRows;
  }
  return {};
}

// A variant that needs less shared memory. In this order: fewer columns cost more
// barriers, fewer sides more reads of columns, fewer warps more reads of everything.
CudaFlash Smaller(CudaFlash v) {
  constexpr int kFewColumns = 32, kFewWarps = 4, kLeastColumns = 16;
  const bool columns = v.columns > kFewColumns ||
                       (v.warps <= kFewWarps && v.columns > kLeastColumns);
  if (columns && v.columns / 2 >= kLeastColumns * v.sides) {
    v.columns /= 2;
  } else if (v.sides > 1 && v.tiles > 1) {
    v.sides /= 2;
    v.tiles /= 2;
  } else {
    v.warps /= 2;
  }
  return v;
}

bool Suits(const Row& row, const Attention& a) {
  const bool causal = a.causal != Attention::Causal::kNone;
  const bool drops = a.dropout > 0;
  if (row.widest < WidestOf(a)) return false;
  switch (row.when) {
    case When::kAlways:
      return true;
    case When::kCausal:
      return causal;
    case When::kDrops:
      return drops;
    case When::kCausalDrops:
      return causal && drops;
  }
  return false;
}

}  // namespace

absl::string_view PartName(Part part) {
  return kPartNames[static_cast<size_t>(part)];
}

bool FlashKernel::Touches(size_t place) const {
  if (!attention.arrays[place].has_value()) return false;
  switch (place) {
    case Attention::kOffset:  // the seed alone names a draw
      return false;
    case Attention::kOut:
    case Attention::kLogsumexp:
      return part != Part::kKeyGrads;
    case Attention::kQueryGrad:
      return part == Part::kQueryGrad;
    case Attention::kKeyGrad:
    case Attention::kValueGrad:
      return part == Part::kKeyGrads;
    default:
      return true;
  }
}

bool FlashKernel::Writes(size_t place) const {
  return Touches(place) && attention.Writes(place);
}

std::vector<FlashKernel> FlashKernelsOf(const Attention& attention) {
  std::vector<FlashKernel> kernels;
  const auto add = [&](Part part) {
    kernels.push_back({.part = part, .attention = attention});
  };
  if (attention.backward) {
    add(Part::kQueryGrad);
    add(Part::kKeyGrads);
  } else {
    add(Part::kForward);
  }
  return kernels;
}

CudaFlash ChooseFlash(const FlashKernel& kernel, const Target& target) {
  CudaFlash variant;
  for (const Row& row : RowsOf(kernel.part)) {
    variant = row.variant;
    if (Suits(row, kernel.attention)) break;
  }
  const int64_t room = target.shared_bytes_per_multiprocessor - kSharedOfBlock;
  while (SharedBytesOf(kernel, variant) > room) variant = Smaller(variant);
  return variant;
}

int64_t SharedBytesOf(const FlashKernel& kernel, const CudaFlash& v) {
  const Attention& a = kernel.attention;
  const int64_t query = RowBytes(a.extents[Attention::kE]);
  const int64_t value = RowBytes(a.extents[Attention::kV]);
  const int64_t rows = PointsOfBlock(v);
  switch (kernel.part) {
    case Part::kForward:
      return rows * query + 2 * v.columns * (query + value);
    case Part::kQueryGrad:
      return (rows + 2 * v.columns) * (query + value);
    case Part::kKeyGrads: {
      constexpr int64_t kSumsBytes = 8;  // of a query
      // Sides share the weights and their changes, in rows like those of heads.
      const int64_t shared = v.sides > 1 ? 2 * rows * RowBytes(v.columns) : 0;
      return rows * (query + value) + shared +
             2 * v.columns * (query + value + kSumsBytes);
    }
  }
  return 0;
}

SymExpr PaddedQueries(const Attention& attention) {
  return CeilDiv(attention.extents[Attention::kM], kMostFlashRows) *
         kMostFlashRows;
}

}  // namespace kiln

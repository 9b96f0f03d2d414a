#include "compiler/schedule/short_code.h"

#include <variant>

namespace kiln {

int ElementsWritten(const KernelVariant& variant) {
  if (const auto* points = std::get_if<CudaPoints>(&variant))
    return points->vector * points->unroll;
  if (const auto* rows = std::get_if<CudaRows>(&variant))
    return rows->vector * (rows->held > 0 ? rows->held : rows->unroll);
  return 0;
}

bool DifferInLengthOnly(const KernelVariant& a, const KernelVariant& b) {
  if (a.index() != b.index()) return false;
  if (const auto* points = std::get_if<CudaPoints>(&a)) {
    CudaPoints same = *points;
    same.unroll = std::get<CudaPoints>(b).unroll;
    return same == std::get<CudaPoints>(b);
  }
  const auto* rows = std::get_if<CudaRows>(&a);
  if (rows == nullptr || rows->stretch > 0 || rows->stages > 0) return false;
  const CudaRows& other = std::get<CudaRows>(b);
  if ((rows->held > 0) != (other.held > 0)) return false;
  CudaRows same = *rows;
  same.lanes = other.lanes;
  same.rows = other.rows;
  same.held = other.held;
  same.unroll = other.unroll;
  return same == other;
}

}  // namespace kiln

#include "runtime/extern_kernels/product_panels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace kiln {
namespace {

// Each loop is compiled for three widths of vectors: one that is inlined uses the
// instructions of its caller.
#define KILN_ALWAYS_INLINE inline __attribute__((always_inline))

template <typename T>
struct Wrapping {
  using Type = T;
};
template <typename T>
requires std::is_integral_v<T>
struct Wrapping<T> {
  using Type = std::make_unsigned_t<T>;  // whose overflow is defined
};

template <typename T, int kBytes, int kRows, int kVectors>
KILN_ALWAYS_INLINE void AddLoop(const T* a, const T* b, int64_t depth, T* sums,
                                int64_t stride) {
  using Number = typename Wrapping<T>::Type;
  typedef Number Lanes __attribute__((vector_size(kBytes)));
  constexpr int64_t kLanes = kBytes / sizeof(T);
  Lanes sum[kRows][kVectors] = {};
  for (int64_t d = 0; d < depth; ++d) {
    Lanes row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      std::memcpy(&row[v], b + v * kLanes, sizeof(Lanes));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Number factor = static_cast<Number>(a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] += factor * row[v];
    }
    a += kRows;
    b += kVectors * kLanes;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      T* const place = sums + r * stride + v * kLanes;
      Lanes total;
      std::memcpy(&total, place, sizeof(Lanes));
      total += sum[r][v];
      std::memcpy(place, &total, sizeof(Lanes));
    }
  }
}

// As many sums as there are registers, less those of a row of b and a factor.
constexpr int kWideRows = 8, kNarrowRows = 4, kVectors = 3, kBaseVectors = 2;

template <typename T>
__attribute__((target("avx512f,avx512dq"))) void AddWithAvx512(
    const T* a, const T* b, int64_t depth, T* sums, int64_t stride) {
  AddLoop<T, 64, kWideRows, kVectors>(a, b, depth, sums, stride);
}

template <typename T>
__attribute__((target("avx2,fma"))) void AddWithAvx2(const T* a, const T* b,
                                                     int64_t depth, T* sums,
                                                     int64_t stride) {
  AddLoop<T, 32, kNarrowRows, kVectors>(a, b, depth, sums, stride);
}

template <typename T>
void AddWithSse2(const T* a, const T* b, int64_t depth, T* sums,
                 int64_t stride) {
  AddLoop<T, 16, kNarrowRows, kBaseVectors>(a, b, depth, sums, stride);
}

}  // namespace

template <typename T>
std::vector<PanelKernel<T>> PanelKernels() {
  constexpr int64_t kLanes = 16 / sizeof(T);
  std::vector<PanelKernel<T>> kernels;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    kernels.push_back({kWideRows, 4 * kVectors * kLanes, AddWithAvx512<T>});
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    kernels.push_back({kNarrowRows, 2 * kVectors * kLanes, AddWithAvx2<T>});
  kernels.push_back({kNarrowRows, kBaseVectors * kLanes, AddWithSse2<T>});
  return kernels;
}

template <typename T>
void WritePanel(const PanelSource<T>& from, int64_t count, int64_t width,
                int64_t depth, T* panel) {
  if (count < width) std::fill_n(panel, width * depth, T{0});
  if (from.across == 1) {
    for (int64_t d = 0; d < depth; ++d)
      std::copy_n(from.data + d * from.along, count, panel + d * width);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const T* const line = from.data + i * from.across;
    for (int64_t d = 0; d < depth; ++d)
      panel[d * width + i] = line[d * from.along];
  }
}

#define KILN_PANELS_OF(T)                                              \
  template std::vector<PanelKernel<T>> PanelKernels<T>();              \
  template void WritePanel<T>(const PanelSource<T>&, int64_t, int64_t, \
                              int64_t, T*);
KILN_PANELS_OF(float)
KILN_PANELS_OF(double)
KILN_PANELS_OF(int32_t)
KILN_PANELS_OF(int64_t)
#undef KILN_PANELS_OF

}  // namespace kiln

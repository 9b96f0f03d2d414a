#ifndef KILN_RUNTIME_EXTERN_KERNELS_PRODUCT_PANELS_H_
#define KILN_RUNTIME_EXTERN_KERNELS_PRODUCT_PANELS_H_

#include <cstdint>
#include <vector>

namespace kiln {

// The inner loop of a matrix product for one width of vectors: it sums `rows` x
// `columns` elements in registers.
//
// `add` does sums += a @ b. a and b are panels: for each step of the depth `rows`
// elements of a, or `columns` of b, side by side. Rows of `sums` are `stride`
// elements apart. Integers wrap.
template <typename T>
struct PanelKernel {
  int64_t rows;
  int64_t columns;
  void (*add)(const T* a, const T* b, int64_t depth, T* sums, int64_t stride);
};

// Those that this processor can run, the widest first. T: float, double, int32_t,
// int64_t. Pure.
template <typename T>
std::vector<PanelKernel<T>> PanelKernels();

// One matrix seen by a panel: `across` is the distance between elements that the
// panel has side by side, `along` that between steps of the depth.
template <typename T>
struct PanelSource {
  const T* data;
  int64_t across;
  int64_t along;
};

// Writes a panel of `width` elements a step. Those past `count` are 0.
template <typename T>
void WritePanel(const PanelSource<T>& from, int64_t count, int64_t width,
                int64_t depth, T* panel);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_PRODUCT_PANELS_H_

#ifndef KILN_PROTO_CORPUS_CORPUS_COMPARE_H_
#define KILN_PROTO_CORPUS_CORPUS_COMPARE_H_

#include <cstdint>
#include <string>

#include "proto/corpus/corpus_case.h"
#include "proto/corpus/corpus_tensor.h"

namespace kiln {

// A tensor that somebody computed: its layout and its first element. The
// offset of the layout is not added to `first`.
struct ComputedTensor {
  TensorLayout layout;
  const char* first = nullptr;
};

// How a computed tensor stands to what was expected.
struct Comparison {
  bool equal = true;
  // Of the worst element, the one furthest past (or nearest to) its bound.
  double error = 0;    // |got - expected|; infinity where one is NaN
  double allowed = 0;  // atol + rtol * |expected|
  // Worst error in units of what is allowed: above 1 is wrong. 0 when exact.
  double ratio = 0;
  // What is wrong, in words: "dtype f32, due f64", "strides [1, 4], due [4,
  // 1]", "[2, 0]: 1.5, due 1.25, off by 0.25, allowed 1e-05". Empty when equal.
  std::string difference;
};

// Compares element by element: |got - expected| <= atol + rtol * |expected|,
// NaN equals NaN, an infinity equals itself, integers and bools are exact.
// Dtype, sizes and strides must be equal; the stride of a dimension of size 1
// or of an empty tensor does not count, since no index uses it.
Comparison CompareTensors(const ComputedTensor& got,
                          const CorpusTensor& expected, Tolerance tolerance);

}  // namespace kiln

#endif  // KILN_PROTO_CORPUS_CORPUS_COMPARE_H_

#include "runtime/extern_kernels/cudnn_shapes.h"

#include <algorithm>

namespace kiln {

CudnnLongs CudnnSizes(const ConvolutionProblem& p, int operand) {
  if (operand == kBiasOperand) {
    CudnnLongs sizes(std::max(4, p.spatial + 2), 1);
    sizes[1] = p.wanted == ConvolutionProblem::Wanted::kImage
                   ? p.image_channels
                   : p.result_channels;
    return sizes;
  }
  const int64_t* extents = operand == kImageOperand     ? p.image
                           : operand == kWeightsOperand ? p.window
                                                        : p.result;
  CudnnLongs sizes =
      operand == kImageOperand ? CudnnLongs{p.batch, p.image_channels}
      : operand == kWeightsOperand
          ? CudnnLongs{p.result_channels, p.image_channels / p.groups}
          : CudnnLongs{p.batch, p.result_channels};
  if (p.spatial == 1) sizes.push_back(1);
  for (int i = 0; i < p.spatial; ++i) sizes.push_back(extents[i]);
  return sizes;
}

CudnnLongs CudnnStrides(const ConvolutionProblem& p, int operand) {
  if (operand == kBiasOperand) {
    const CudnnLongs sizes = CudnnSizes(p, operand);
    CudnnLongs strides(sizes.size(), 1);
    strides[0] = sizes[1] * p.bias_stride;
    strides[1] = p.bias_stride;
    return strides;
  }
  const int64_t* const from = operand == kImageOperand     ? p.image_strides
                              : operand == kWeightsOperand ? p.weight_strides
                              : operand == kAddedOperand   ? p.added_strides
                                                           : p.result_strides;
  CudnnLongs strides = {from[0], from[1]};
  if (p.spatial == 1) strides.push_back(from[2]);
  for (int i = 0; i < p.spatial; ++i) strides.push_back(from[2 + i]);
  return strides;
}

CudnnLongs CudnnDenseStrides(const CudnnLongs& sizes, CudnnFormat format) {
  CudnnLongs strides(sizes.size());
  int64_t step = 1;
  if (format == CudnnFormat::kChannelsLast) {
    strides[1] = step;
    step = sizes[1];
  }
  for (size_t i = sizes.size() - 1; i >= 2; --i) {
    strides[i] = step;
    step *= sizes[i];
  }
  if (format == CudnnFormat::kChannelsFirst) {
    strides[1] = step;
    step *= sizes[1];
  }
  strides[0] = step;
  return strides;
}

bool CudnnSameLayout(const CudnnLongs& sizes, const CudnnLongs& a,
                     const CudnnLongs& b) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1 && a[i] != b[i]) return false;
  }
  return true;
}

CudnnInts ToCudnnInts(const CudnnLongs& from) {
  CudnnInts out;
  for (const int64_t value : from) out.push_back(static_cast<int>(value));
  return out;
}

CudnnLongs CudnnSpatial(const ConvolutionProblem& p, const int64_t* from,
                        int64_t absent) {
  CudnnLongs out;
  if (p.spatial == 1) out.push_back(absent);
  for (int i = 0; i < p.spatial; ++i) out.push_back(from[i]);
  return out;
}

bool IsEmpty(const ConvolutionProblem& p) {
  bool empty = p.batch == 0 || p.image_channels == 0 || p.result_channels == 0;
  for (int i = 0; i < p.spatial; ++i) {
    empty = empty || p.image[i] == 0 || p.result[i] == 0;
  }
  return empty;
}

}  // namespace kiln

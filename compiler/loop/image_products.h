#ifndef KILN_COMPILER_LOOP_IMAGE_PRODUCTS_H_
#define KILN_COMPILER_LOOP_IMAGE_PRODUCTS_H_

#include "compiler/graph/graph.h"

namespace kiln {

// Convolutions, and their gradients, as nodes of a graph.
bool IsConvolution(const Node& node);
bool IsConvolutionBackward(const Node& node);

// Whether a convolution of channels-first images is a matrix product for each image:
// the weights times the matrix of channels by pixels. Holds on CUDA for f32 and half
// types if the window is a single pixel and the convolution has stride 1, no padding
// and one group. The gradient with respect to the images then is such a product too,
// with the weights transposed. (The gradient with respect to the weights is a sum over
// images.)
//
// The pixels of an image must fill whole vectors of 16 bytes. Otherwise rows are
// unaligned, and tensor cores are several times slower.
bool IsImageProduct(const Graph& graph, const Node& node);

// Whether oneDNN computes a convolution on images that lie channels-last as they lie,
// without copies to its own layouts and back: of f32, with a window of one pixel in one
// group, or with a window for each channel, as runtime/extern_kernels/convolution_steps.h
// decides it. Not a gradient, nor a transposed one.
bool IsComputedAsItLies(const Graph& graph, const Node& node);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_IMAGE_PRODUCTS_H_

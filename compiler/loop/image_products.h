#ifndef KILN_COMPILER_LOOP_IMAGE_PRODUCTS_H_
#define KILN_COMPILER_LOOP_IMAGE_PRODUCTS_H_

#include "compiler/graph/graph.h"

namespace kiln {

// Convolutions, and their gradients, as nodes of a graph.
bool IsConvolution(const Node& node);
bool IsConvolutionBackward(const Node& node);

// Whether a convolution, or that of a gradient, is one product of matrices for
// each image that lies channels-first: the weights times channels by pixels. Such
// is one of a window of one pixel that takes every pixel, in one group, on CUDA,
// of f32 and half types. Its gradient of the images is another, of the weights
// transposed; that of the weights is a sum over images, and no product.
//
// The pixels of an image have to be whole vectors of 16 bytes: tensor cores are fed
// several times slower by rows that are not.
bool IsImageProduct(const Graph& graph, const Node& node);

// Whether oneDNN computes a convolution on images that lie channels-last as they lie,
// without copies to its own layouts and back: of f32, with a window of one pixel in one
// group, or with a window for each channel (runtime/extern_kernels/convolution_steps.h). Not a
// gradient, nor a transposed one.
bool IsComputedAsItLies(const Graph& graph, const Node& node);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_IMAGE_PRODUCTS_H_

#ifndef KILN_COMPILER_LOOP_PRICE_LAYOUTS_H_
#define KILN_COMPILER_LOOP_PRICE_LAYOUTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/graph/graph.h"

namespace kiln {

// The result of a loop or step that a value is, or shows with its dimensions in
// order. None for an input, a constant, and what is shown otherwise.
std::optional<ValueId> ShownResult(const Graph& graph, ValueId v);

// What it means for a graph that some of its results lie channels-last, in bytes
// that are copied from one layout to another, at the hints.
struct LayoutBytes {
  // What the library copies inside of convolutions whose arrays lie
  // channels-first: all that they read and write. An image product
  // (image_products.h) has nothing to copy. On the CPU images alone count, of
  // convolutions that are computed as they lie; of others they are copied in any case.
  int64_t saved = 0;
  // What is copied in front of convolutions, on CUDA, and for the caller. A loop that
  // runs anyway takes half as long again if it also changes the layout: of what lies
  // channels-first there, half counts.
  int64_t added = 0;
};

// `marked`, by ValueId: the results that lie so. Pure, and linear in nodes.
LayoutBytes PriceChannelsLast(const Graph& graph,
                              const std::vector<bool>& marked);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_PRICE_LAYOUTS_H_

#ifndef KILN_COMPILER_LOOP_LOOP_NEST_H_
#define KILN_COMPILER_LOOP_LOOP_NEST_H_

// The graph as loops. lower_graph makes one nest a node; scheduling merges
// nests, so that the same type also holds a whole fused kernel: its axes, one
// scalar DAG that may hold several reductions, and everything it stores.
//
// Indices stay one expression a dimension of the buffer ("x[i0, i1]"): a
// producer is inlined by putting them in place of its axes, and only codegen
// multiplies them with strides.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/graph/argument.h"
#include "compiler/loop/attention.h"
#include "compiler/loop/buffer.h"
#include "compiler/loop/contraction.h"
#include "compiler/loop/scalar_expr.h"
#include "compiler/sym/shape_env.h"
#include "compiler/sym/sym_expr.h"

namespace kiln {

struct Axis {
  SymExpr extent;
  bool reduction = false;  // all reduction axes stand behind all others
};

enum class StoreMode : uint8_t {
  kSet,
  kAtomicAdd,  // several iterations may meet; order is not fixed
  // Several iterations may meet: the greatest of their values and what was there
  // stays, whatever their order. Of i32 and i64.
  kAtomicMax,
  // Several iterations may meet; what was there is multiplied by their values, in no
  // fixed order. Of types of 32 and 64 bits.
  kAtomicMul,
  // Iterations that meet are added in an order that the kernel's variant fixes;
  // what no iteration reaches becomes 0. See Store::stretch.
  kSum,
};

// Whether several iterations may meet at one cell.
constexpr bool IsAtomic(StoreMode mode) {
  return mode == StoreMode::kAtomicAdd || mode == StoreMode::kAtomicMax ||
         mode == StoreMode::kAtomicMul;
}

// One write a point of the nest, or a point of its non-reduction axes when
// neither value nor index depends on a reduction axis.
struct Store {
  BufferId buffer;
  DimVector index;
  ScalarId value;  // cast to the buffer's dtype already
  StoreMode mode = StoreMode::kSet;
  static constexpr ScalarId kNoMask = ~0u;
  ScalarId mask = kNoMask;  // bool node; false: not written
  // kSum: the buffer is [stretches, columns], and the first index is the number
  // of the outer point, as the nest counts them, divided by `stretch`. Stretches
  // of outer points are added apart, so that blocks can share them.
  int64_t stretch = 0;
};

struct LoopNest {
  std::vector<std::string>
      origins;  // operators it came from, in order: "add", "native_layer_norm"
  // Of the client's graph (Node::client_nodes), those that it came from, in order.
  // No text has them, and no kernel depends on them.
  std::vector<uint32_t> client_nodes;
  std::vector<Axis> axes;
  std::vector<ScalarNode> body;
  std::vector<Store> stores;
  // Further nests that are computed in it where they are read, and that fusion
  // merged into it. Limits and metrics ask; no text has them.
  int inlined = 0;
  int merged = 0;

  int loops() const { return 1 + inlined + merged; }
};

// The first values of each row of a matrix in an order, and where they stood.
// NaN is larger than all numbers.
struct RowOrder {
  enum class How : uint8_t {
    kSort,         // all of them; equals keep their order
    kTop,          // as many as `values` has columns
    kTopUnsorted,  // the same, in any order
    kKth,          // number `k`, from 0
    kMedian,  // the lower of two in the middle; the first NaN if there is one
    kNanMedian,  // the same of the numbers alone
  };
  How how = How::kSort;
  bool largest = false;  // kSort, kTop: from the largest on
  SymExpr k = 0;
  View x, values, places;
  std::string origin;
  std::vector<uint32_t> client_nodes;  // as a nest's
};

// "sort", "top_unsorted": as in prims.order, in text and in the runtime's contract.
absl::string_view OrderName(RowOrder::How how);
std::optional<RowOrder::How> OrderFromName(absl::string_view name);

struct Fill {
  BufferId buffer;
  Number value;
};

using LoopStep = std::variant<LoopNest, Contraction, Attention, RowOrder, Fill>;

struct ProgramOutput {
  std::variant<NoneArgument, View, SymExpr> what;
};

struct LoopProgram {
  std::string name;
  ShapeEnv shapes;
  std::vector<Buffer> buffers;
  std::vector<LoopStep> steps;
  std::vector<ProgramOutput> outputs;
  // Graph inputs, by number, whose memory the program writes: the last store
  // to the input's buffer gives its final value.
  std::vector<uint32_t> mutated_inputs;
  // For people: the contractions that are loops by now, and why, a line each
  // (choose_contraction.h). Not in the program's text.
  std::vector<std::string> own_contractions;
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOOP_NEST_H_

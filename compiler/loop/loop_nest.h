#ifndef KILN_COMPILER_LOOP_LOOP_NEST_H_
#define KILN_COMPILER_LOOP_LOOP_NEST_H_

// The graph as loops. lower_graph makes one nest for each node. Scheduling merges
// nests, so the same type also holds a whole fused kernel: its axes, one scalar DAG
// that may have several reductions, and all of its stores.
//
// An access has one index expression for each dimension of the buffer ("x[i0, i1]").
// To inline a producer, its axes are replaced by these expressions. Only codegen
// multiplies them by strides.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/config/tuning_table.h"
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
  bool reduction = false;  // reduction axes come after all others
};

enum class StoreMode : uint8_t {
  kSet,
  kAtomicAdd,  // several iterations may write one cell, in no fixed order
  // Several iterations may write one cell, which keeps the greatest of their values
  // and its own, whatever the order. For i32 and i64.
  kAtomicMax,
  // Several iterations may write one cell, which is multiplied by their values in no
  // fixed order. For types of 32 and 64 bits.
  kAtomicMul,
  // Values of iterations that write one cell are added in an order that the kernel's
  // variant fixes. A cell that no iteration writes becomes 0. See Store::stretch.
  kSum,
};

// Whether several iterations may write one cell.
constexpr bool IsAtomic(StoreMode mode) {
  return mode == StoreMode::kAtomicAdd || mode == StoreMode::kAtomicMax ||
         mode == StoreMode::kAtomicMul;
}

// A write at each point of the nest, or at each point of its other axes if neither
// value nor index depends on a reduction axis.
struct Store {
  BufferId buffer;
  DimVector index;
  ScalarId value;  // has the buffer's dtype
  StoreMode mode = StoreMode::kSet;
  static constexpr ScalarId kNoMask = ~0u;
  ScalarId mask = kNoMask;  // bool node; false: not written
  // kSum: the buffer is [stretches, columns]. The first index is the number of the
  // outer point, in the nest's order, divided by `stretch`. Each stretch of outer
  // points has a sum of its own, so blocks can share the work.
  int64_t stretch = 0;
};

struct LoopNest {
  std::vector<std::string>
      origins;  // operators it came from, in order: "add", "native_layer_norm"
  // The nodes of the client's graph (Node::client_nodes) that it came from, in order.
  // They are in no text, and no kernel depends on them.
  std::vector<uint32_t> client_nodes;
  std::vector<Axis> axes;
  std::vector<ScalarNode> body;
  std::vector<Store> stores;
  // How many other nests were inlined into it, and how many fusion merged into it.
  // For limits and metrics; in no text.
  int inlined = 0;
  int merged = 0;

  int loops() const { return 1 + inlined + merged; }
};

// Sorts each row of a matrix and gives the first values, with their positions in the
// row. NaN is larger than all numbers.
struct RowOrder {
  enum class How : uint8_t {
    kSort,         // all of them; stable
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
  // For people: a line for each contraction that is a step no more, with the reason:
  // attention that was taken apart (attention_choice.h), what became loops
  // (choose_contraction.h). Not in the program's text.
  std::vector<std::string> replaced_contractions;
  // The operators of the tiny products that became loops, "bmm": what Inductor's
  // decompose_bmm and its like count. Not in the program's text either.
  std::vector<std::string> tiny_products;
  // The tuning decisions that passes over loops looked up: KernelPlan.tuned has more.
  TuningTable tuned;
  // Graph.client_words. Not in the program's text.
  std::vector<std::string> client_words;
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOOP_NEST_H_

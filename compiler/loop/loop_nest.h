#ifndef KILN_COMPILER_LOOP_LOOP_NEST_H_
#define KILN_COMPILER_LOOP_LOOP_NEST_H_

// The graph as loops. lower_graph makes one nest for most nodes. Scheduling merges
// nests, so the same type also holds a whole fused kernel: its axes, one scalar DAG
// that may have several reductions, and all of its stores.
//
// An access has an index expression for each dimension of the buffer ("x[i0, i1]"). To
// inline a producer, its axes are replaced by these expressions. Plans of kernels have
// flat buffers (schedule/flatten_program.h), whose single index is the element's offset.

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
  // Adds to a cell that other iterations may write too, in no fixed order.
  kAtomicAdd,
  // Sets a cell to the maximum of its value and those of all iterations that write it.
  // For i32 and i64.
  kAtomicMax,
  // Multiplies a cell that other iterations may write too, in no fixed order. For types
  // of 32 and 64 bits.
  kAtomicMul,
  // Sets a cell to the sum of the values of all iterations that write it, in an order
  // that the kernel's variant fixes; 0 if none does. See Store::stretch.
  kSum,
};

// Whether several iterations may write one cell.
constexpr bool IsAtomic(StoreMode mode) {
  return mode == StoreMode::kAtomicAdd || mode == StoreMode::kAtomicMax ||
         mode == StoreMode::kAtomicMul;
}

// A write at each point of the nest. If neither the value nor the index depends on a
// reduction axis, it is done once for each point of the other axes.
struct Store {
  BufferId buffer;
  DimVector index;
  ScalarId value;  // has the buffer's dtype
  StoreMode mode = StoreMode::kSet;
  static constexpr ScalarId kNoMask = ~0u;
  ScalarId mask = kNoMask;  // bool node; false: not written
  // For kSum: the buffer is [stretches, columns]. The first index is the number of the
  // outer point, in the order of the nest's axes, divided by `stretch`. Each stretch of
  // outer points has its own sums, so that blocks can share the work.
  int64_t stretch = 0;
};

struct LoopNest {
  std::vector<std::string>
      origins;  // operators it came from, in order: "add", "native_layer_norm"
  // The nodes of the client's graph (Node::client_nodes) that it came from, in order. Not
  // in the text, and no kernel depends on them.
  std::vector<uint32_t> client_nodes;
  std::vector<Axis> axes;
  std::vector<ScalarNode> body;
  std::vector<Store> stores;
  // How many other nests were inlined into it, and how many fusion merged into it. For
  // limits and metrics. Not in the text.
  int inlined = 0;
  int merged = 0;

  int loops() const { return 1 + inlined + merged; }
};

// Sorts each row of a matrix and returns the first values, with their positions in the
// row. NaN is larger than all numbers.
struct RowOrder {
  enum class How : uint8_t {
    kSort,         // all values; stable
    kTop,          // as many as `values` has columns
    kTopUnsorted,  // the same in any order
    kKth,          // value number `k`, from 0
    kMedian,  // the lower of two in the middle; the first NaN if there is one
    kNanMedian,  // the same without NaNs
  };
  How how = How::kSort;
  bool largest = false;  // for kSort and kTop: in descending order
  SymExpr k = 0;
  View x, values, places;
  std::string origin;
  std::vector<uint32_t> client_nodes;  // see LoopNest::client_nodes
};

// "sort", "top_unsorted": the names in prims.order, in text and in the runtime's library
// calls.
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
  // The numbers of the graph inputs whose memory the program writes. The last store to
  // the input's buffer determines its final value.
  std::vector<uint32_t> mutated_inputs;
  // For people: a line for each contraction that has been replaced, with the reason:
  // attention that was decomposed (attention_choice.h), or contractions that became loops
  // (choose_contraction.h). Not in the program's text.
  std::vector<std::string> replaced_contractions;
  // The operators ("bmm") of the tiny products that became loops. Inductor's
  // decompose_bmm and similar counters count them. Not in the program's text.
  std::vector<std::string> tiny_products;
  // The tuning decisions that passes over loops looked up. See KernelPlan::tuned.
  TuningTable tuned;
  // See Graph::client_words. Not in the program's text.
  std::vector<std::string> client_words;
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOOP_NEST_H_

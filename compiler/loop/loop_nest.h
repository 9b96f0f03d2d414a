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
#include <string>
#include <variant>
#include <vector>

#include "compiler/graph/argument.h"
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

enum class BufferKind : uint8_t {
  kInput,
  kConstant,
  kTemporary,
  kOutput,
  kCounters,  // of a plan's kernels: zero before and after each launch
};

// Named memory. Temporaries are dense; an output has the strides its caller
// must see. Two buffers never overlap but as `alias_of` says.
struct Buffer {
  std::string name;  // "buf3"; inputs and constants as in the graph
  BufferKind kind = BufferKind::kTemporary;
  DType dtype = DType::kFloat32;
  DimVector sizes;
  DimVector strides;   // elements
  SymExpr offset = 0;  // elements, from the input's first
  uint32_t index = 0;  // of the graph input or constant
  // What the address of element 0 (before `offset`) is a multiple of: an
  // input's promise; everything else is allocated on 16 bytes or more.
  uint32_t alignment_bytes = 16;
};

// A strided window on a buffer: how outputs and extern calls see memory.
struct View {
  BufferId buffer = 0;
  DType dtype = DType::kFloat32;
  DimVector sizes;
  DimVector strides;
  SymExpr offset = 0;
};

struct Attribute {
  std::string name;
  std::variant<int64_t, double, std::string, std::vector<SymExpr>> value;
};

// A library call; what each takes is written in the runtime's contract.
struct ExternCall {
  std::string name;  // "addmm"
  std::string origin;
  std::vector<uint32_t> client_nodes;  // as a nest's
  std::vector<View> inputs;
  std::vector<View> outputs;
  std::vector<Attribute> attributes;
};

struct Fill {
  BufferId buffer;
  Number value;
};

using LoopStep = std::variant<LoopNest, ExternCall, Fill>;

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
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOOP_NEST_H_

#ifndef KILN_COMPILER_GRAPH_ATTENTION_CHOICE_H_
#define KILN_COMPILER_GRAPH_ATTENTION_CHOICE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/graph/tensor_meta.h"
#include "compiler/sym/shape_env.h"

// The one place that decides whether an attention is a step of its own, and whose,
// or is taken apart into two products and a softmax.

namespace kiln {

// What the choice depends on. Forward and backward of one attention have the same:
// they must draw alike.
struct AttentionForm {
  DType dtype = DType::kFloat32;
  // b, h, x, m, n, e, v (compiler/loop/attention.h).
  SymExpr batch, heads, key_heads, queries, keys, width, value_width;
  double dropout = 0;
  bool causal = false;
  bool has_bias = false;
};

enum class AttentionBy : uint8_t {
  kLibrary,  // cuDNN; on the CPU the runtime's own blocks
  kOwn,      // flash kernels of ours (schedule/flash_kernel.h)
  kParts,    // products and a softmax, with all scores in memory
};
struct AttentionChoice {
  AttentionBy by = AttentionBy::kParts;
  // "cuDNN", "own flash, cuDNN is not compared on sm_80", "in parts, no kernel has
  // f32"
  std::string ground;
  // Of parts, why no kernel has it: "no kernel has f32".
  std::string lack = "";
  // Of kOwn: cuDNN has it too, and ours is faster at these sizes.
  bool by_sizes = false;
};

// Sizes that are not known are decided by their hints, with a guard.
AttentionChoice ChooseAttention(const AttentionForm& form, ShapeEnv& shapes,
                                const Target& target);

// Why an attention is taken apart although a kernel has it: "few scores". Empty where
// the kernel is as fast. Decides as ChooseAttention does.
std::string FasterInParts(const AttentionForm& form, ShapeEnv& shapes,
                          const Target& target);

// For people: "attention NAME [b 2, h 8, x 2, m s0, n s0, e 64, v 64] bf16: GROUND:
// heads of 64 on sm_90". `name`: with what stands in front of it.
std::string ExplainAttention(absl::string_view name, const AttentionForm& form,
                             absl::string_view ground, const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_ATTENTION_CHOICE_H_

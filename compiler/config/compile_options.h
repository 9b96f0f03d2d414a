#ifndef KILN_COMPILER_CONFIG_COMPILE_OPTIONS_H_
#define KILN_COMPILER_CONFIG_COMPILE_OPTIONS_H_

#include <cstdint>

namespace kiln {

// What decides an artifact's bytes beside graph and target. All of it is in the
// compile key.
struct ArtifactOptions {
  // Nests in one kernel. Higher: fewer launches, more registers and longer
  // builds. 1 to 4096.
  int max_fusion_size = 64;
  // Elements of a row kept in registers between its passes; 0: by target. Too
  // high spills, too low reads rows twice. At most 2^20.
  int64_t persistent_max_row = 0;
  // Reductions of fewer elements become expressions; 1: none does. 1 to 64.
  int unroll_reductions_threshold = 8;
  // Long reductions with few results may be computed in parts, whose results another
  // step or the last block combines. Faster, other roundings of sums.
  bool split_reductions = true;
  // Library calls may round products so. More speed, fewer bits.
  bool allow_tf32 = false;
  bool allow_tf32_convolution = false;  // the same, of convolutions
  bool allow_fp16_reduced_precision = false;
  bool allow_bf16_reduced_precision = false;
  // Equal inputs give equal results, every run. Each operator has such a form;
  // some are slower than those that add in any order.
  bool deterministic = false;
  bool convolution_deterministic = false;  // the same, of convolutions alone
  // Rounds half types after each operator, as eager mode does. Fewer bits, more
  // work; for comparing with it.
  bool emulate_precision_casts = false;
  // Convolutions on CUDA, and what is around them, lie channels-last in memory
  // where that is faster, whatever the strides of the caller's tensors.
  bool layout_optimization = true;
  // One kernel a nest. For debugging.
  bool no_fusion = false;
  // Products may be computed in whole vectors (schedule/align_contractions.h).
  // Faster, more code.
  bool shape_padding = true;
  // Every product on CUDA is padded whose sizes are no multiples of 16 bytes, and
  // none is peeled: as Inductor's option of that name.
  bool force_shape_pad = false;
  // Rows of temporaries may get a longer stride. Faster, up to an eighth more memory.
  bool comprehensive_padding = true;
  // A padded operand of one product may be its source's own memory with longer rows
  // (schedule/pad_in_place.h): no copy.
  bool inplace_padding = true;
  // So may an input's, whose rows are then written behind their ends: the last one too
  // must be as long as the stride says. For tests.
  bool can_inplace_pad_graph_input = false;
  // Kernels of ours compute attention on CUDA where cuDNN could: for programs without
  // cuDNN.
  bool own_attention = false;
};

// What cannot reach an artifact's bytes.
struct DiagnosticOptions {
  bool dump_passes = false;    // keep the text after each pass
  bool verify_passes = false;  // run the verifier after each pass
};

struct CompileOptions {
  ArtifactOptions artifact;
  DiagnosticOptions diagnostic;
};

}  // namespace kiln

#endif  // KILN_COMPILER_CONFIG_COMPILE_OPTIONS_H_

#include "compiler/config/compile_options_from_wire.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr uint32_t kMaxFusionSize = 4096;
constexpr uint32_t kMaxPersistentRow = 1 << 20;
constexpr uint32_t kMaxUnrollReductions = 64;

absl::Status BadOption(absl::string_view name, uint64_t found, uint64_t most) {
  return MakeError(
      ErrorReason::kBadOption,
      absl::StrCat(name, ": found ", found, ", expected at most ", most));
}

}  // namespace

absl::StatusOr<CompileOptions> CompileOptionsFromWire(
    const wire::CompileOptions& wire) {
  const wire::ArtifactOptions& from = wire.artifact();
  if (from.max_fusion_size() > kMaxFusionSize) {
    return BadOption("max_fusion_size", from.max_fusion_size(), kMaxFusionSize);
  }
  if (from.persistent_max_row() > kMaxPersistentRow) {
    return BadOption("persistent_max_row", from.persistent_max_row(),
                     kMaxPersistentRow);
  }
  if (from.unroll_reductions_threshold() > kMaxUnrollReductions) {
    return BadOption("unroll_reductions_threshold",
                     from.unroll_reductions_threshold(), kMaxUnrollReductions);
  }
  CompileOptions options;
  if (from.max_fusion_size() != 0) {
    options.artifact.max_fusion_size = static_cast<int>(from.max_fusion_size());
  }
  options.artifact.persistent_max_row = from.persistent_max_row();
  if (from.unroll_reductions_threshold() != 0) {
    options.artifact.unroll_reductions_threshold =
        static_cast<int>(from.unroll_reductions_threshold());
  }
  options.artifact.split_reductions = !from.no_split_reductions();
  options.artifact.deterministic = from.deterministic();
  options.artifact.convolution_deterministic = from.convolution_deterministic();
  options.artifact.emulate_precision_casts = from.emulate_precision_casts();
  options.artifact.allow_tf32 = from.allow_tf32();
  options.artifact.allow_tf32_convolution = from.allow_tf32_convolution();
  options.artifact.allow_fp16_reduced_precision =
      from.allow_fp16_reduced_precision();
  options.artifact.allow_bf16_reduced_precision =
      from.allow_bf16_reduced_precision();
  options.artifact.layout_optimization = !from.no_layout_optimization();
  options.artifact.no_fusion = from.no_fusion();
  options.artifact.shape_padding = !from.no_shape_padding();
  options.artifact.force_shape_pad = from.force_shape_pad();
  options.artifact.comprehensive_padding = !from.no_comprehensive_padding();
  options.artifact.inplace_padding = !from.no_inplace_padding();
  options.artifact.can_inplace_pad_graph_input =
      from.can_inplace_pad_graph_input();
  options.artifact.own_attention = from.own_attention();
  options.diagnostic.dump_passes = wire.diagnostic().dump_passes();
  options.diagnostic.verify_passes = wire.diagnostic().verify_passes();
  return options;
}

}  // namespace kiln

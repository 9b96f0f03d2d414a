#include "compiler/schedule/library_takes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/schedule/library_epilogue.h"
#include "compiler/schedule/pad_rows.h"

namespace kiln {
namespace {

// Functions named ...Refusal say what a library does not do; empty if it does it all.

std::string CudnnRefusal(const Contraction& c) {
  constexpr size_t kGroups = 1, kChannels = 2;
  constexpr int64_t kVector = 8;
  const View& result = c.result().view;
  const SymExpr& channels = c.extents[kChannels];
  if (c.written != Contraction::kC) return "in a gradient";
  if (!IsHalf(result.dtype))
    return absl::StrCat("of ", ShortName(result.dtype));
  if (c.spatial() != 2) return absl::StrCat("of ", c.spatial(), "d images");
  if (!c.extents[kGroups].Is(1)) return "in groups of channels";
  if (!result.strides[1].Is(1)) return "of images that are not channels-last";
  if (!channels.is_constant()) return "with channels whose number may change";
  if (channels.constant() % kVector != 0) {
    return absl::StrCat("with ", channels.constant(),
                        " channels, no multiple of ", kVector);
  }
  const bool empty = std::any_of(c.extents.begin(), c.extents.end(),
                                 [](const SymExpr& e) { return e.Is(0); });
  return empty ? "with a size of 0" : "";
}

// Of a number of elements, `what`, that has to be whole vectors of the dtype.
std::string VectorsRefusal(const SymExpr& extent, absl::string_view what,
                           DType dtype) {
  if (!extent.is_constant())
    return absl::StrCat("with a number of ", what, " that may change");
  if (extent.Is(0)) return absl::StrCat("with 0 ", what);
  if (extent.constant() % RowAlignment(dtype) == 0) return "";
  return absl::StrCat("with ", extent.constant(), " ", what,
                      ", no multiple of ", RowAlignment(dtype));
}

// What cuBLASLt's DGELU lacks (extern_kernel.h).
std::string GeluGradientRefusal(const Contraction& c, const View& input,
                                const std::vector<Buffer>& buffers) {
  const View& result = c.result().view;
  if (!IsHalf(result.dtype))
    return absl::StrCat("of ", ShortName(result.dtype));
  const SymExpr& columns = result.sizes[1];
  for (const auto& [extent, what] :
       {std::pair(columns, "columns"), std::pair(c.extents.back(), "terms")}) {
    std::string refusal = VectorsRefusal(extent, what, result.dtype);
    if (!refusal.empty()) return refusal;
  }
  if (!result.strides[1].Is(1)) return "of columns with gaps between them";
  if (!input.strides[1].Is(1))
    return "of an input with gaps between its columns";
  if (!HasAlignedRows(input, buffers[input.buffer]))
    return "of an input whose rows may begin between multiples of 16 bytes";
  if (!result.sizes[0].Is(1) &&
      input.strides[0].constant() < columns.constant()) {
    return "of an input whose rows overlap";
  }
  const bool aligned = std::all_of(
      c.operands.begin(), c.operands.end(),
      [&](const ContractionOperand& operand) {
        return HasAlignedRows(operand.view, buffers[operand.view.buffer]);
      });
  return aligned ? ""
                 : "with a matrix whose rows may begin between multiples of 16 "
                   "bytes";
}

// Of the activation.
std::string ActivationRefusal(const Contraction& c,
                              const LibraryEpilogue& epilogue,
                              const std::vector<Buffer>& buffers,
                              const Target& target) {
  const DType dtype = c.result().view.dtype;
  const std::string of_dtype = absl::StrCat("of ", ShortName(dtype));
  const bool cpu = target.kind == TargetKind::kCpu;
  if (epilogue.gelu_input.has_value()) {
    return cpu ? "on a CPU"
               : GeluGradientRefusal(c, *epilogue.gelu_input, buffers);
  }
  if (epilogue.activation.empty()) return "";
  if (!IsFloat(dtype)) return of_dtype;
  if (cpu) return "";
  if (c.form == Contraction::Form::kConvolution) {
    // cuDNN's engines have the whole of max(sum + bias + added, 0) and keep a NaN.
    if (epilogue.activation != "relu") return "in a convolution";
    if (!epilogue.bias.has_value()) return "without a bias";
    return CudnnRefusal(c);
  }
  // Its gelu is as good as half types are.
  if (epilogue.activation != "gelu_tanh") return "that keeps a NaN";
  return IsHalf(dtype) ? "" : of_dtype;
}

// Of an array that is added. Behind oneDNN it is added, and a NaN kept, while the result
// is in the cache.
std::string AddedRefusal(const Contraction& c, const Target& target) {
  if (target.kind != TargetKind::kCpu) return CudnnRefusal(c);
  const DType dtype = c.result().view.dtype;
  return dtype == DType::kFloat32 ? "" : absl::StrCat("of ", ShortName(dtype));
}

absl::string_view LibraryOf(const Contraction& c, const Target& target) {
  if (target.kind == TargetKind::kCpu) {
    const DType dtype = c.result().view.dtype;
    return dtype == DType::kFloat32 || IsHalf(dtype) ? "oneDNN"
                                                     : "the runtime's loops";
  }
  return c.form == Contraction::Form::kProduct ? "cuBLASLt" : "cuDNN";
}

}  // namespace

bool EpilogueOnCudnn(const Contraction& c) {
  return c.form == Contraction::Form::kConvolution && CudnnRefusal(c).empty();
}

bool LibraryTakes(const Contraction& c, const std::vector<Buffer>& buffers,
                  const ShapeEnv& shapes, const Target& target,
                  std::string& ground) {
  if (!HasPlainFactors(c)) {
    ground = "what is done to a factor";
    return false;
  }
  const std::optional<LibraryEpilogue> epilogue =
      LibraryEpilogueOf(c, buffers, shapes);
  if (!epilogue.has_value()) {
    ground = "what is done to the sum";
    return false;
  }
  if (epilogue->added.has_value()) {
    const std::string refusal = AddedRefusal(c, target);
    if (!refusal.empty()) {
      ground = absl::StrCat("an array that is added ", refusal);
      return false;
    }
  }
  const std::string refusal = ActivationRefusal(c, *epilogue, buffers, target);
  if (!refusal.empty()) {
    ground = absl::StrCat(epilogue->activation, " ", refusal);
    return false;
  }
  ground = std::string(LibraryOf(c, target));
  if (epilogue->bias.has_value()) absl::StrAppend(&ground, ", bias");
  if (epilogue->added.has_value()) absl::StrAppend(&ground, ", added");
  if (!epilogue->activation.empty())
    absl::StrAppend(&ground, ", ", epilogue->activation);
  return true;
}

}  // namespace kiln

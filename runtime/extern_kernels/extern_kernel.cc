#include "runtime/extern_kernels/extern_kernel.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln {
namespace {

absl::string_view WantedText(ConvolutionProblem::Wanted wanted) {
  switch (wanted) {
    case ConvolutionProblem::Wanted::kResult:
      return "result";
    case ConvolutionProblem::Wanted::kImage:
      return "image";
    case ConvolutionProblem::Wanted::kWeights:
      return "weights";
  }
  return "";
}

std::string Text(const MatmulProblem& p) {
  return absl::StrCat("matmul ", ShortName(p.dtype), " ", p.batch, " x [", p.m,
                      ", ", p.k, "] @ [", p.k, ", ", p.n, "]",
                      p.has_gelu_input ? ", times a gelu's gradient" : "");
}

std::string Text(const ConvolutionProblem& p) {
  const auto extents = [&p](const int64_t* of) {
    return absl::StrJoin(absl::MakeConstSpan(of, p.spatial), "x");
  };
  return absl::StrCat(
      "convolution ", ShortName(p.dtype), " for its ", WantedText(p.wanted),
      ": image [", p.batch, ", ", p.image_channels, ", ", extents(p.image),
      "], window ", extents(p.window), ", result [", p.batch, ", ",
      p.result_channels, ", ", extents(p.result), "], groups ", p.groups);
}

std::string Text(const OrderProblem& p) {
  return absl::StrCat("order ", ShortName(p.dtype), " [", p.rows, ", ",
                      p.length, "], ", p.count, " of each");
}

std::string Text(const AttentionProblem& p) {
  return absl::StrCat("attention", p.backward ? " backward " : " ",
                      ShortName(p.dtype), " [", p.batch, ", ", p.heads, ", ",
                      p.queries, ", ", p.width, "] to [", p.batch, ", ",
                      p.key_heads, ", ", p.keys, ", ", p.value_width, "]");
}

}  // namespace

int WrittenOperand(ConvolutionProblem::Wanted wanted) {
  switch (wanted) {
    case ConvolutionProblem::Wanted::kImage:
      return kImageOperand;
    case ConvolutionProblem::Wanted::kWeights:
      return kWeightsOperand;
    case ConvolutionProblem::Wanted::kResult:
      return kResultOperand;
  }
  return kResultOperand;
}

std::string Describe(const ExternProblem& problem) {
  return std::visit([](const auto& p) { return Text(p); }, problem);
}

}  // namespace kiln

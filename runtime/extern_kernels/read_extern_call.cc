#include "runtime/extern_kernels/read_extern_call.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/extern_attributes.h"
#include "runtime/extern_kernels/read_attention_call.h"

namespace kiln {
namespace {

absl::Status CheckDTypes(const ExternCall& call, bool integers) {
  const DType dtype = call.inputs[0].dtype;
  const bool computed =
      IsFloat(dtype) ||
      (integers && (dtype == DType::kInt32 || dtype == DType::kInt64));
  if (!computed) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(call.name, ": dtype ", ShortName(dtype)));
  }
  const auto same = [dtype](const ExternOperand& operand) {
    return operand.dtype == dtype;
  };
  if (!std::all_of(call.inputs.begin(), call.inputs.end(), same) ||
      !std::all_of(call.outputs.begin(), call.outputs.end(), same)) {
    return Contradiction(call);
  }
  return absl::OkStatus();
}

// The last two dimensions of a matrix and, of rank three, its batch.
MatrixStrides StridesOf(const ExternOperand& matrix) {
  const size_t rank = matrix.strides.size();
  return {rank == 3 ? matrix.strides[0] : 0, matrix.strides[rank - 2],
          matrix.strides[rank - 1]};
}

absl::StatusOr<Activation> ActivationOf(absl::string_view call,
                                        absl::string_view name) {
  if (name.empty()) return Activation::kNone;
  if (name == "relu") return Activation::kRelu;
  if (name == "gelu_tanh") return Activation::kGeluTanh;
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat(call, ": activation ", name));
}

absl::StatusOr<ExternPart> ReadMatmul(const ExternCall& call, size_t rank,
                                      bool with_bias) {
  ExternAttributes attributes(call);
  ASSIGN_OR_RETURN(const absl::string_view activation,
                   attributes.Text("activation"));
  const bool has_gelu_input =
      call.name == "mm" && activation == "gelu_tanh_gradient";
  RETURN_IF_ERROR(CheckCounts(call, with_bias || has_gelu_input ? 3 : 2, 1));
  RETURN_IF_ERROR(CheckDTypes(call, /*integers=*/true));
  const int a_index = with_bias ? 1 : 0;
  const ExternOperand& a = call.inputs[a_index];
  const ExternOperand& b = call.inputs[a_index + 1];
  const ExternOperand& out = call.outputs[0];
  for (const ExternOperand* matrix : {&a, &b, &out}) {
    if (matrix->sizes.size() != rank) return Contradiction(call);
  }
  MatmulProblem problem;
  problem.dtype = a.dtype;
  problem.batch = rank == 3 ? a.sizes[0] : 1;
  problem.m = a.sizes[rank - 2];
  problem.k = a.sizes[rank - 1];
  problem.n = b.sizes[rank - 1];
  const bool fits =
      b.sizes[rank - 2] == problem.k && out.sizes[rank - 2] == problem.m &&
      out.sizes[rank - 1] == problem.n &&
      (rank == 2 ||
       (b.sizes[0] == problem.batch && out.sizes[0] == problem.batch)) &&
      (!with_bias || call.inputs[0].sizes == out.sizes) &&
      (!has_gelu_input || call.inputs[2].sizes == out.sizes);
  if (!fits) return Contradiction(call);
  problem.a = StridesOf(a);
  problem.b = StridesOf(b);
  problem.out = StridesOf(out);
  if (with_bias) {
    ASSIGN_OR_RETURN(problem.alpha, attributes.Float("alpha", 1));
    ASSIGN_OR_RETURN(problem.beta, attributes.Float("beta", 1));
    problem.has_bias = problem.beta != 0;
    if (problem.has_bias) problem.bias = StridesOf(call.inputs[0]);
  }
  if (has_gelu_input) {
    problem.has_gelu_input = true;
    problem.gelu_input = StridesOf(call.inputs[2]);
  } else {
    ASSIGN_OR_RETURN(problem.activation, ActivationOf(call.name, activation));
  }
  ASSIGN_OR_RETURN(problem.precision, attributes.PrecisionAllowed());
  ASSIGN_OR_RETURN(const absl::string_view algorithm,
                   attributes.Text("algorithm"));
  problem.algorithm = std::string(algorithm);
  RETURN_IF_ERROR(attributes.AllKnown());
  ExternPart part;
  part.operand[0] = a_index;
  part.operand[1] = a_index + 1;
  part.operand[2] = has_gelu_input ? 2 : problem.has_bias ? 0 : -1;
  part.operand[3] = static_cast<int>(call.inputs.size());
  part.problem = problem;
  return part;
}

using Wanted = ConvolutionProblem::Wanted;

absl::StatusOr<Wanted> WantedOf(absl::string_view name) {
  if (name.empty() || name == "result") return Wanted::kResult;
  if (name == "image") return Wanted::kImage;
  if (name == "weights") return Wanted::kWeights;
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat("convolution: wanted ", name));
}

// Strides, paddings and dilations.
absl::Status ReadWindow(ExternAttributes& attributes,
                        ConvolutionProblem& problem) {
  const int spatial = problem.spatial;
  RETURN_IF_ERROR(attributes.Ints("stride", spatial, 1, problem.stride));
  RETURN_IF_ERROR(attributes.Ints("padding", spatial, 0, problem.padding));
  RETURN_IF_ERROR(attributes.Ints("dilation", spatial, 1, problem.dilation));
  ASSIGN_OR_RETURN(problem.groups, attributes.Int("groups", 1));
  return absl::OkStatus();
}

// Sizes and strides of the three arrays: false when they contradict each other.
bool TakeArrays(const ExternOperand& image, const ExternOperand& weights,
                const ExternOperand& result, ConvolutionProblem& problem) {
  problem.batch = image.sizes[0];
  problem.image_channels = image.sizes[1];
  problem.result_channels = result.sizes[1];
  if (problem.groups < 1 || result.sizes[0] != problem.batch ||
      weights.sizes[0] != problem.result_channels ||
      weights.sizes[1] * problem.groups != problem.image_channels ||
      problem.result_channels % problem.groups != 0) {
    return false;
  }
  for (int i = 0; i < problem.spatial; ++i) {
    problem.image[i] = image.sizes[2 + i];
    problem.window[i] = weights.sizes[2 + i];
    problem.result[i] = result.sizes[2 + i];
    if (problem.stride[i] < 1 || problem.dilation[i] < 1) return false;
    const int64_t room = problem.image[i] + 2 * problem.padding[i] -
                         problem.dilation[i] * (problem.window[i] - 1) - 1;
    if (room < 0 || room / problem.stride[i] + 1 != problem.result[i])
      return false;
  }
  std::copy(image.strides.begin(), image.strides.end(), problem.image_strides);
  std::copy(weights.strides.begin(), weights.strides.end(),
            problem.weight_strides);
  std::copy(result.strides.begin(), result.strides.end(),
            problem.result_strides);
  return true;
}

// What is added to a convolution's result, its last input: false when it is not of
// that result's sizes.
bool TakeAdded(const ExternCall& call, ConvolutionProblem& problem,
               ExternPart& part) {
  const ExternOperand& array = call.inputs.back();
  if (problem.wanted != Wanted::kResult ||
      array.sizes != call.outputs[0].sizes) {
    return false;
  }
  problem.has_added = true;
  std::copy(array.strides.begin(), array.strides.end(), problem.added_strides);
  part.operand[kAddedOperand] = static_cast<int>(call.inputs.size()) - 1;
  return true;
}

absl::StatusOr<ExternPart> ReadConvolution(const ExternCall& call) {
  ExternAttributes attributes(call);
  ASSIGN_OR_RETURN(const int64_t added, attributes.Int("added", 0));
  const size_t arrays_read = added != 0 ? 3 : 2;
  const bool with_bias = call.inputs.size() == arrays_read + 1;
  RETURN_IF_ERROR(CheckCounts(call, arrays_read + (with_bias ? 1 : 0), 1));
  RETURN_IF_ERROR(CheckDTypes(call, /*integers=*/false));
  ConvolutionProblem problem;
  ASSIGN_OR_RETURN(const absl::string_view wanted, attributes.Text("wanted"));
  ASSIGN_OR_RETURN(problem.wanted, WantedOf(wanted));
  ExternPart part;
  const ExternOperand* arrays[3];
  for (int place = 0, next = 0; place < 3; ++place) {
    const bool written = place == WrittenOperand(problem.wanted);
    part.operand[place] =
        written ? static_cast<int>(call.inputs.size()) : next++;
    arrays[place] =
        written ? &call.outputs[0] : &call.inputs[part.operand[place]];
    const size_t rank = arrays[place]->sizes.size();
    if (rank < 3 || rank > 5 || rank != arrays[0]->sizes.size())
      return Contradiction(call);
  }
  problem.spatial = static_cast<int>(arrays[0]->sizes.size()) - 2;
  problem.dtype = call.outputs[0].dtype;
  RETURN_IF_ERROR(ReadWindow(attributes, problem));
  ASSIGN_OR_RETURN(problem.precision, attributes.PrecisionAllowed());
  ASSIGN_OR_RETURN(const int64_t deterministic,
                   attributes.Int("deterministic", 0));
  problem.deterministic = deterministic != 0;
  ASSIGN_OR_RETURN(const absl::string_view activation,
                   attributes.Text("activation"));
  ASSIGN_OR_RETURN(problem.activation, ActivationOf(call.name, activation));
  ASSIGN_OR_RETURN(const absl::string_view algorithm,
                   attributes.Text("algorithm"));
  problem.algorithm = std::string(algorithm);
  RETURN_IF_ERROR(attributes.AllKnown());
  if (!TakeArrays(*arrays[kImageOperand], *arrays[kWeightsOperand],
                  *arrays[kResultOperand], problem)) {
    return Contradiction(call);
  }
  if (with_bias) {
    const ExternOperand& bias = call.inputs[2];
    if (problem.wanted == Wanted::kWeights || bias.sizes.size() != 1 ||
        bias.sizes[0] != call.outputs[0].sizes[1]) {
      return Contradiction(call);
    }
    problem.has_bias = true;
    problem.bias_stride = bias.strides[0];
    part.operand[kBiasOperand] = 2;
  }
  if (added != 0 && !TakeAdded(call, problem, part)) return Contradiction(call);
  part.problem = problem;
  return part;
}

absl::StatusOr<OrderProblem::How> HowOf(absl::string_view name) {
  using How = OrderProblem::How;
  static constexpr std::pair<absl::string_view, How> kNames[] = {
      {"sort", How::kSort},     {"top", How::kTop},
      {"kth", How::kKth},       {"top_unsorted", How::kTopUnsorted},
      {"median", How::kMedian}, {"nanmedian", How::kNanMedian}};
  for (const auto& [text, how] : kNames)
    if (text == name) return how;
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat("order: how ", name));
}

// Whether there is what is asked for in each row.
bool Has(const OrderProblem& p) {
  switch (p.how) {
    case OrderProblem::How::kSort:
      return p.count == p.length;
    case OrderProblem::How::kTop:
    case OrderProblem::How::kTopUnsorted:
      return p.count <= p.length;
    case OrderProblem::How::kKth:
      return p.count == 1 && p.k >= 0 && p.k < p.length;
    case OrderProblem::How::kMedian:
    case OrderProblem::How::kNanMedian:
      return p.count == 1 && p.length > 0;
  }
  return false;
}

absl::StatusOr<ExternPart> ReadOrder(const ExternCall& call) {
  RETURN_IF_ERROR(CheckCounts(call, 1, 2));
  const ExternOperand& x = call.inputs[0];
  const ExternOperand& values = call.outputs[0];
  const ExternOperand& places = call.outputs[1];
  ExternAttributes attributes(call);
  OrderProblem problem;
  ASSIGN_OR_RETURN(const absl::string_view how, attributes.Text("how"));
  ASSIGN_OR_RETURN(problem.how, HowOf(how));
  ASSIGN_OR_RETURN(const int64_t largest, attributes.Int("largest", 0));
  RETURN_IF_ERROR(attributes.Ints("k", 1, 0, &problem.k));
  RETURN_IF_ERROR(attributes.AllKnown());
  problem.largest = largest != 0;
  problem.dtype = x.dtype;
  if (x.sizes.size() != 2 || values.sizes.size() != 2 ||
      values.sizes != places.sizes || values.sizes[0] != x.sizes[0] ||
      values.dtype != x.dtype || places.dtype != DType::kInt64) {
    return Contradiction(call);
  }
  problem.rows = x.sizes[0];
  problem.length = x.sizes[1];
  problem.count = values.sizes[1];
  problem.x_row = x.strides[0], problem.x_column = x.strides[1];
  problem.values_row = values.strides[0];
  problem.values_column = values.strides[1];
  problem.places_row = places.strides[0];
  problem.places_column = places.strides[1];
  if (problem.rows > 0 && !Has(problem)) return Contradiction(call);
  ExternPart part;
  part.operand[0] = 0;
  part.operand[1] = 1;
  part.operand[2] = 2;
  part.problem = problem;
  return part;
}

}  // namespace

absl::StatusOr<ExternPart> ReadExternCall(const ExternCall& call) {
  if (call.name == "mm") return ReadMatmul(call, 2, /*with_bias=*/false);
  if (call.name == "addmm") return ReadMatmul(call, 2, /*with_bias=*/true);
  if (call.name == "bmm") return ReadMatmul(call, 3, /*with_bias=*/false);
  if (call.name == "baddbmm") return ReadMatmul(call, 3, /*with_bias=*/true);
  if (call.name == "convolution") return ReadConvolution(call);
  if (call.name == "order") return ReadOrder(call);
  if (call.name == "attention") return ReadAttentionCall(call, false);
  if (call.name == "attention_backward") return ReadAttentionCall(call, true);
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat("extern call ", call.name));
}

}  // namespace kiln

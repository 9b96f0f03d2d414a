#include "runtime/extern_kernels/read_attention_call.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/extern_attributes.h"

namespace kiln {
namespace {

using Causal = AttentionProblem::Causal;
using Strides = AttentionProblem::Strides;

absl::StatusOr<Causal> CausalOf(absl::string_view name) {
  if (name.empty()) return Causal::kNone;
  if (name == "top_left") return Causal::kTopLeft;
  if (name == "bottom_right") return Causal::kBottomRight;
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat("attention: causal ", name));
}

Strides StridesOf(const ExternOperand& x) {
  return {x.strides[0], x.strides[1], x.strides[2],
          x.strides.size() == 4 ? x.strides[3] : 0};
}

// The call's operands by their places (kQueryOperand, ...).
class AttentionReader {
 public:
  AttentionReader(const ExternCall& call, bool backward)
      : call_(call), attributes_(call) {
    p_.backward = backward;
  }

  absl::StatusOr<ExternPart> Read() {
    RETURN_IF_ERROR(ReadAttributes());
    RETURN_IF_ERROR(PlaceOperands());
    if (!TakeSizes() || !Fit()) return Contradiction(call_);
    TakeStrides();
    part_.problem = p_;
    return part_;
  }

 private:
  absl::Status ReadAttributes() {
    ASSIGN_OR_RETURN(const absl::string_view causal,
                     attributes_.Text("causal"));
    ASSIGN_OR_RETURN(p_.causal, CausalOf(causal));
    ASSIGN_OR_RETURN(p_.window, attributes_.Int("window", 0));
    ASSIGN_OR_RETURN(p_.scale, attributes_.Float("scale", 1));
    ASSIGN_OR_RETURN(p_.dropout, attributes_.Float("dropout", 0));
    ASSIGN_OR_RETURN(const int64_t biased, attributes_.Int("biased", 0));
    p_.has_bias = biased != 0;
    ASSIGN_OR_RETURN(const absl::string_view algorithm,
                     attributes_.Text("algorithm"));
    p_.algorithm = std::string(algorithm);
    RETURN_IF_ERROR(attributes_.AllKnown());
    if (p_.dropout > 0 && !algorithm.empty()) {
      return MakeError(
          ErrorReason::kUnsupportedOp,
          absl::StrCat(call_.name, ": algorithm ", algorithm,
                       " with a dropout; leave out the algorithm, since "
                       "forward and backward must draw by the same engine"));
    }
    if (p_.window < 0 || !(p_.dropout >= 0 && p_.dropout < 1) ||
        !std::isfinite(p_.scale)) {
      return MakeError(
          ErrorReason::kUnsupportedOp,
          absl::StrCat(call_.name, ": window ", p_.window, ", dropout ",
                       p_.dropout, ", scale ", p_.scale,
                       "; expected a window of 0 or more, a dropout from 0 to "
                       "below 1 and a finite scale"));
    }
    return absl::OkStatus();
  }

  // Which operand of the call stands in each place.
  absl::Status PlaceOperands() {
    std::vector<int> inputs, outputs;
    if (p_.backward) {
      inputs = {kGradOperand,  kQueryOperand, kKeyOperand,
                kValueOperand, kOutOperand,   kLogsumexpOperand};
      outputs = {kQueryGradOperand, kKeyGradOperand, kValueGradOperand};
    } else {
      inputs = {kQueryOperand, kKeyOperand, kValueOperand};
      outputs = {kOutOperand, kLogsumexpOperand};
    }
    if (p_.has_bias) inputs.push_back(kAttentionBiasOperand);
    if (p_.dropout > 0) {
      inputs.push_back(kSeedOperand);
      inputs.push_back(kOffsetOperand);
    }
    RETURN_IF_ERROR(CheckCounts(call_, inputs.size(), outputs.size()));
    int number = 0;
    for (const int place : inputs) part_.operand[place] = number++;
    for (const int place : outputs) part_.operand[place] = number++;
    return absl::OkStatus();
  }

  const ExternOperand& at(int place) const {
    const auto number = static_cast<size_t>(part_.operand[place]);
    return number < call_.inputs.size()
               ? call_.inputs[number]
               : call_.outputs[number - call_.inputs.size()];
  }

  bool TakeSizes() {
    for (const int place : {kQueryOperand, kKeyOperand, kValueOperand})
      if (at(place).sizes.size() != 4) return false;
    const ExternOperand& q = at(kQueryOperand);
    const ExternOperand& k = at(kKeyOperand);
    p_.dtype = q.dtype;
    p_.batch = q.sizes[0];
    p_.heads = q.sizes[1];
    p_.queries = q.sizes[2];
    p_.width = q.sizes[3];
    p_.key_heads = k.sizes[1];
    p_.keys = k.sizes[2];
    p_.value_width = at(kValueOperand).sizes[3];
    return IsFloat(p_.dtype) &&
           (p_.key_heads == p_.heads ||
            (p_.key_heads > 0 && p_.heads % p_.key_heads == 0));
  }

  bool Has(int place, DType dtype, absl::Span<const int64_t> sizes) const {
    if (part_.operand[place] < 0) return true;
    return at(place).dtype == dtype && at(place).sizes == sizes;
  }

  bool Fit() const {
    const int64_t b = p_.batch, h = p_.heads, x = p_.key_heads, m = p_.queries,
                  n = p_.keys, e = p_.width, v = p_.value_width;
    const DType t = p_.dtype;
    bool fits = true;
    for (const int place : {kQueryOperand, kQueryGradOperand})
      fits = fits && Has(place, t, {b, h, m, e});
    for (const int place : {kKeyOperand, kKeyGradOperand})
      fits = fits && Has(place, t, {b, x, n, e});
    for (const int place : {kValueOperand, kValueGradOperand})
      fits = fits && Has(place, t, {b, x, n, v});
    for (const int place : {kOutOperand, kGradOperand})
      fits = fits && Has(place, t, {b, h, m, v});
    for (const int place : {kSeedOperand, kOffsetOperand})
      fits = fits && Has(place, DType::kInt64, {});
    return fits && Has(kLogsumexpOperand, DType::kFloat32, {b, h, m}) &&
           (Has(kAttentionBiasOperand, t, {b, h, m, n}) ||
            Has(kAttentionBiasOperand, DType::kFloat32, {b, h, m, n}));
  }

  void TakeStrides() {
    const std::pair<int, Strides*> all[] = {
        {kQueryOperand, &p_.query},          {kKeyOperand, &p_.key},
        {kValueOperand, &p_.value},          {kOutOperand, &p_.out},
        {kLogsumexpOperand, &p_.logsumexp},  {kGradOperand, &p_.grad},
        {kQueryGradOperand, &p_.query_grad}, {kKeyGradOperand, &p_.key_grad},
        {kValueGradOperand, &p_.value_grad}, {kAttentionBiasOperand, &p_.bias}};
    for (const auto& [place, strides] : all)
      if (part_.operand[place] >= 0) *strides = StridesOf(at(place));
    if (p_.has_bias) p_.bias_dtype = at(kAttentionBiasOperand).dtype;
  }

  const ExternCall& call_;
  ExternAttributes attributes_;
  AttentionProblem p_;
  ExternPart part_;
};

}  // namespace

absl::StatusOr<ExternPart> ReadAttentionCall(const ExternCall& call,
                                             bool backward) {
  return AttentionReader(call, backward).Read();
}

}  // namespace kiln

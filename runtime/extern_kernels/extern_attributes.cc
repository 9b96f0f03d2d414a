#include "runtime/extern_kernels/extern_attributes.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

std::string ShapeText(const ExternOperand& operand) {
  return absl::StrCat(ShortName(operand.dtype), "[",
                      absl::StrJoin(operand.sizes, ", "), "]");
}

}  // namespace

absl::StatusOr<double> ExternAttributes::Float(absl::string_view name,
                                               double absent) {
  const ExternAttribute* found = Find(name);
  if (found == nullptr) return absent;
  if (const auto* real = std::get_if<double>(&found->value)) return *real;
  if (const auto* number = std::get_if<int64_t>(&found->value)) {
    return static_cast<double>(*number);
  }
  return WrongType(name, "a float");
}

absl::StatusOr<int64_t> ExternAttributes::Int(absl::string_view name,
                                              int64_t absent) {
  const ExternAttribute* found = Find(name);
  if (found == nullptr) return absent;
  if (const auto* number = std::get_if<int64_t>(&found->value)) {
    return *number;
  }
  return WrongType(name, "an int");
}

absl::StatusOr<absl::string_view> ExternAttributes::Text(
    absl::string_view name) {
  const ExternAttribute* found = Find(name);
  if (found == nullptr) return absl::string_view();
  if (const auto* text = std::get_if<absl::string_view>(&found->value)) {
    return *text;
  }
  return WrongType(name, "a string");
}

absl::StatusOr<Precision> ExternAttributes::PrecisionAllowed() {
  ASSIGN_OR_RETURN(const int64_t tf32, Int("allow_tf32", 0));
  ASSIGN_OR_RETURN(const int64_t sums, Int("allow_reduced_sums", 0));
  return Precision{.tf32 = tf32 != 0, .reduced_sums = sums != 0};
}

absl::Status ExternAttributes::Ints(absl::string_view name, int count,
                                    int64_t absent, int64_t* out) {
  std::fill(out, out + count, absent);
  const ExternAttribute* found = Find(name);
  if (found == nullptr) return absl::OkStatus();
  if (const auto* number = std::get_if<int64_t>(&found->value)) {
    std::fill(out, out + count, *number);
    return absl::OkStatus();
  }
  const auto* ints = std::get_if<absl::Span<const int64_t>>(&found->value);
  if (ints == nullptr) return WrongType(name, "ints");
  if (ints->empty()) return absl::OkStatus();
  if (ints->size() != 1 && static_cast<int>(ints->size()) != count) {
    return MakeError(ErrorReason::kArtifactCorrupt,
                     absl::StrCat(call_, ": ", name, ": found ", ints->size(),
                                  " values, expected ", count));
  }
  for (int i = 0; i < count; ++i) out[i] = (*ints)[ints->size() == 1 ? 0 : i];
  return absl::OkStatus();
}

absl::Status ExternAttributes::AllKnown() const {
  for (const ExternAttribute& attribute : all_) {
    if (std::find(asked_.begin(), asked_.end(), attribute.name) ==
        asked_.end()) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       absl::StrCat(call_, ": unknown attribute ",
                                    attribute.name));
    }
  }
  return absl::OkStatus();
}

const ExternAttribute* ExternAttributes::Find(absl::string_view name) {
  asked_.push_back(name);
  for (const ExternAttribute& attribute : all_) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

absl::Status ExternAttributes::WrongType(absl::string_view name,
                                         absl::string_view due) const {
  return MakeError(
      ErrorReason::kArtifactCorrupt,
      absl::StrCat(call_, ": attribute ", name, ": expected ", due));
}

absl::Status Contradiction(const ExternCall& call) {
  std::string text = absl::StrCat(call.name, ": shapes contradict:");
  for (const ExternOperand& in : call.inputs) {
    absl::StrAppend(&text, " ", ShapeText(in));
  }
  absl::StrAppend(&text, " ->");
  for (const ExternOperand& out : call.outputs) {
    absl::StrAppend(&text, " ", ShapeText(out));
  }
  return MakeError(ErrorReason::kArtifactCorrupt, text);
}

absl::Status CheckCounts(const ExternCall& call, size_t inputs,
                         size_t outputs) {
  if (call.inputs.size() == inputs && call.outputs.size() == outputs) {
    return absl::OkStatus();
  }
  return MakeError(
      ErrorReason::kArtifactCorrupt,
      absl::StrCat(call.name, ": found ", call.inputs.size(), " inputs and ",
                   call.outputs.size(), " outputs, expected ", inputs, " and ",
                   outputs));
}

}  // namespace kiln

#include "proto/key/graph_checks.h"

#include <google/protobuf/unknown_field_set.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "proto/key/graph_limits.h"

namespace kiln {

absl::Status MalformedRequest(absl::string_view what) {
  return MakeError(ErrorReason::kMalformedGraph, what);
}

absl::Status TooLarge(absl::string_view what, int64_t found, int64_t due) {
  return MakeError(ErrorReason::kTooLarge,
                   absl::StrCat(found, " ", what, ", at most ", due));
}

std::string Quoted(absl::string_view name) {
  constexpr size_t kShown = 60;
  const std::string escaped = absl::CHexEscape(name.substr(0, kShown));
  return name.size() > kShown ? absl::StrCat(escaped, "...") : escaped;
}

absl::Status CheckGraphName(absl::string_view name) {
  if (static_cast<int64_t>(name.size()) > kMaxNameBytes) {
    return TooLarge("bytes of name", name.size(), kMaxNameBytes);
  }
  for (const unsigned char c : name) {
    if (c < 0x20 || c == 0x7f) {
      return MalformedRequest(absl::StrCat("name \"", Quoted(name),
                                           "\" holds a control character"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckKnown(const google::protobuf::Message& message) {
  const google::protobuf::UnknownFieldSet& unknown =
      message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return absl::OkStatus();
  return MalformedRequest(absl::StrCat(message.GetTypeName(), " has field ",
                                       unknown.field(0).number(),
                                       " unknown to this build"));
}

absl::StatusOr<int64_t> CountElements(const wire::TensorMeta& meta) {
  int64_t elements = 1;
  bool too_many = false;
  bool empty = false;
  for (const wire::SymExpr& size : meta.sizes()) {
    if (size.code_size() != 0) continue;
    if (size.value() < 0) {
      return MalformedRequest(absl::StrCat("size ", size.value()));
    }
    empty = empty || size.value() == 0;
    if (empty) continue;
    too_many = too_many || size.value() > kMaxTensorElements / elements;
    if (!too_many) elements *= size.value();
  }
  if (empty) return 0;
  if (!too_many) return elements;
  return MakeError(ErrorReason::kTooLarge,
                   absl::StrCat("more than ", kMaxTensorElements, " elements"));
}

}  // namespace kiln

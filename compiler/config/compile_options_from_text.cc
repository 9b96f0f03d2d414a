#include "compiler/config/compile_options_from_text.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/config/compile_options_from_wire.h"
#include "proto/base/status.h"
#include "proto/compile_service.pb.h"

namespace kiln {
namespace {

absl::Status SetOption(absl::string_view word, wire::ArtifactOptions& options) {
  using Field = google::protobuf::FieldDescriptor;
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(word, absl::MaxSplits('=', 1));
  const Field* const field =
      options.GetDescriptor()->FindFieldByName(parts.first);
  if (field == nullptr) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat(parts.first, ": there is no such option"));
  }
  uint32_t value = 0;
  const bool is_bool = field->cpp_type() == Field::CPPTYPE_BOOL;
  if (!absl::SimpleAtoi(parts.second, &value) || (is_bool && value > 1) ||
      (!is_bool && field->cpp_type() != Field::CPPTYPE_UINT32)) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat(parts.first, ": found \"", parts.second, "\", expected ",
                     is_bool ? "0 or 1" : "a number"));
  }
  const google::protobuf::Reflection& set = *options.GetReflection();
  if (is_bool) {
    set.SetBool(&options, field, value != 0);
  } else {
    set.SetUInt32(&options, field, value);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompileOptions> CompileOptionsFromText(absl::string_view text) {
  wire::CompileOptions wire;
  for (const absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(", "), absl::SkipEmpty())) {
    RETURN_IF_ERROR(SetOption(word, *wire.mutable_artifact()));
  }
  return CompileOptionsFromWire(wire);
}

}  // namespace kiln

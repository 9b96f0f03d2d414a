#ifndef KILN_PROTO_PLAN_PLAN_WORDS_H_
#define KILN_PROTO_PLAN_PLAN_WORDS_H_

// The words that a plan's text has for values of the wire's enums. Printer and
// parser read the same rows.

#include <optional>

#include "absl/strings/string_view.h"
#include "proto/artifact.pb.h"

namespace kiln {

template <typename Enum>
struct EnumWord {
  Enum value;
  absl::string_view word;
};

inline constexpr EnumWord<wire::SymbolSource::Kind> kSymbolSources[] = {
    {wire::SymbolSource::KIND_UNSPECIFIED, "nowhere"},
    {wire::SymbolSource::KIND_SIZE, "size"},
    {wire::SymbolSource::KIND_STRIDE, "stride"},
    {wire::SymbolSource::KIND_OFFSET, "offset"},
    {wire::SymbolSource::KIND_SCALAR, "scalar"},
    {wire::SymbolSource::KIND_STEP, "step"}};

inline constexpr EnumWord<wire::PlanBuffer::Kind> kBufferKinds[] = {
    {wire::PlanBuffer::KIND_UNSPECIFIED, "unspecified"},
    {wire::PlanBuffer::KIND_INPUT, "input"},
    {wire::PlanBuffer::KIND_OUTPUT, "output"},
    {wire::PlanBuffer::KIND_ARENA, "arena"},
    {wire::PlanBuffer::KIND_CONSTANT, "constant"},
    {wire::PlanBuffer::KIND_OWN, "own"},
    {wire::PlanBuffer::KIND_COUNTERS, "counters"}};

inline constexpr EnumWord<wire::DeviceType> kDevices[] = {
    {wire::DEVICE_TYPE_CPU, "cpu"}, {wire::DEVICE_TYPE_CUDA, "cuda"}};

template <typename Enum, size_t N>
absl::string_view NameOf(const EnumWord<Enum> (&rows)[N], Enum value) {
  for (const EnumWord<Enum>& row : rows) {
    if (row.value == value) return row.word;
  }
  return "unknown";
}

template <typename Enum, size_t N>
std::optional<Enum> ValueOf(const EnumWord<Enum> (&rows)[N],
                            absl::string_view word) {
  for (const EnumWord<Enum>& row : rows) {
    if (row.word == word) return row.value;
  }
  return std::nullopt;
}

}  // namespace kiln

#endif  // KILN_PROTO_PLAN_PLAN_WORDS_H_

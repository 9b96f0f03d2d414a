#include "proto/jail/jail_spec.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr absl::string_view kFirst = "--jail";
constexpr absl::string_view kLast = "--";

absl::Status NoWord(absl::string_view word) {
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat("jail: unknown word ", word));
}

absl::Status TakeWord(absl::string_view word, JailSpec& spec) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(word, absl::MaxSplits('=', 1));
  const std::string value(parts.second);
  if (parts.first == "weakest" || parts.first == "strongest") {
    ASSIGN_OR_RETURN(const JailLevel level, JailLevelFromName(value));
    (parts.first == "weakest" ? spec.levels.weakest : spec.levels.strongest) =
        level;
  } else if (parts.first == "scratch") {
    spec.scratch = value;
  } else if (parts.first == "readable") {
    spec.readable.push_back(value);
  } else if (parts.first == "writable") {
    spec.writable.push_back(value);
  } else if (parts.first == "gpu") {
    spec.gpu = value == "1";
  } else if (parts.first == "lowest-after-hello") {
    spec.lowest_after_hello = value == "1";
  } else if (parts.first == "memory") {
    if (!absl::SimpleAtoi(value, &spec.memory_bytes)) return NoWord(word);
  } else if (parts.first == "cpu") {
    if (!absl::SimpleAtoi(value, &spec.cpu_seconds)) return NoWord(word);
  } else {
    return NoWord(word);
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view JailLevelName(JailLevel level) {
  switch (level) {
    case JailLevel::kLimits:
      return "limits";
    case JailLevel::kLandlock:
      return "landlock";
    case JailLevel::kNamespaces:
      return "namespaces";
  }
  return "limits";
}

absl::StatusOr<JailLevel> JailLevelFromName(absl::string_view name) {
  for (const JailLevel level :
       {JailLevel::kLimits, JailLevel::kLandlock, JailLevel::kNamespaces}) {
    if (JailLevelName(level) == name) return level;
  }
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat("sandbox: found \"", name,
                                "\", expected limits, landlock or namespaces"));
}

std::vector<std::string> JailWords(const JailSpec& spec) {
  std::vector<std::string> words = {
      std::string(kFirst),
      absl::StrCat("weakest=", JailLevelName(spec.levels.weakest)),
      absl::StrCat("strongest=", JailLevelName(spec.levels.strongest)),
      absl::StrCat("scratch=", spec.scratch),
      absl::StrCat("gpu=", spec.gpu ? 1 : 0),
      absl::StrCat("lowest-after-hello=", spec.lowest_after_hello ? 1 : 0),
      absl::StrCat("memory=", spec.memory_bytes),
      absl::StrCat("cpu=", spec.cpu_seconds)};
  for (const std::string& path : spec.readable) {
    words.push_back(absl::StrCat("readable=", path));
  }
  for (const std::string& path : spec.writable) {
    words.push_back(absl::StrCat("writable=", path));
  }
  words.emplace_back(kLast);
  return words;
}

absl::StatusOr<JailSpec> TakeJailWords(std::vector<std::string>& words) {
  if (words.empty() || words[0] != kFirst) {
    return NoWord(words.empty() ? "nothing" : words[0]);
  }
  JailSpec spec;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == kLast) {
      words.erase(words.begin(), words.begin() + static_cast<int64_t>(i) + 1);
      return spec;
    }
    RETURN_IF_ERROR(TakeWord(words[i], spec));
  }
  return NoWord("no end");
}

}  // namespace kiln

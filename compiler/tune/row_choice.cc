#include "compiler/tune/row_choice.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kiln {
namespace {

constexpr absl::string_view kRowKind = "row_reduction/";

int Log2Class(int64_t n) {
  int exponent = 0;
  while (exponent < 62 && (int64_t{1} << exponent) < n) ++exponent;
  return exponent;
}

}  // namespace

std::string ToText(const RowChoice& choice) {
  if (choice.accumulators > 0)
    return absl::StrCat("accumulators=", choice.accumulators);
  return absl::StrCat("threads=", choice.threads, " rows=", choice.rows);
}

std::optional<RowChoice> RowChoiceFromText(absl::string_view text) {
  RowChoice choice;
  for (absl::string_view part : absl::StrSplit(text, ' ')) {
    const std::pair<absl::string_view, absl::string_view> word =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    int value = 0;
    if (!absl::SimpleAtoi(word.second, &value) || value < 1 || value > 1024)
      return std::nullopt;
    if (word.first == "threads") {
      choice.threads = value;
    } else if (word.first == "rows") {
      choice.rows = value;
    } else if (word.first == "accumulators") {
      choice.accumulators = value;
    } else {
      return std::nullopt;
    }
  }
  if (ToText(choice) != text) return std::nullopt;
  return choice;
}

std::vector<RowChoice> RowChoices(const Target& target) {
  if (target.kind == TargetKind::kCpu)
    return {{.accumulators = 2}, {.accumulators = 1}, {.accumulators = 4}};
  return {{.threads = 128, .rows = 1}, {.threads = 32, .rows = 4},
          {.threads = 64, .rows = 2},  {.threads = 256, .rows = 1},
          {.threads = 512, .rows = 1}, {.threads = 1024, .rows = 1}};
}

void Apply(const RowChoice& choice, KernelVariant& variant) {
  if (auto* rows = std::get_if<CpuRows>(&variant)) {
    rows->accumulators = choice.accumulators;
    return;
  }
  auto& rows = std::get<CudaRows>(variant);
  if (rows.held > 0) {
    // The same groups, shared by other threads.
    const int groups = rows.held * rows.lanes;
    const bool together = rows.unroll > 1;
    rows.held = (groups + choice.threads - 1) / choice.threads;
    rows.unroll = together ? rows.held : 1;
  }
  rows.lanes = choice.threads;
  rows.rows = choice.rows;
}

std::string RowKey(DType dtype, int64_t rows, int64_t columns,
                   const Target& target) {
  return absl::StrCat(kRowKind, ShortName(dtype), "/2^", Log2Class(rows), "x2^",
                      Log2Class(columns), "/", target.name);
}

bool IsRowKey(absl::string_view key, const Target& target) {
  return absl::ConsumePrefix(&key, kRowKind) &&
         absl::ConsumeSuffix(&key, target.name) && absl::EndsWith(key, "/");
}

}  // namespace kiln

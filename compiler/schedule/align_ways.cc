#include "compiler/schedule/align_ways.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/schedule/contraction_key.h"

namespace kiln {
namespace {

constexpr absl::string_view kPlain = "plain";

std::string NameOf(const AlignRemedy& remedy) {
  if (remedy.interleaves) return "interleave";
  const bool peels = std::any_of(remedy.peeled.begin(), remedy.peeled.end(),
                                 [](const auto& at) { return at.has_value(); });
  const bool widens = std::any_of(remedy.widened.begin(), remedy.widened.end(),
                                  [](int64_t size) { return size > 0; });
  if (peels) return widens ? "pad_and_peel" : "peel";
  return "pad";
}

// Text that differs between different ways to align one product.
std::string WordsOf(const AlignWay& way) {
  std::string out = way.name;
  if (!way.remedy.has_value()) return out;
  for (size_t place = 0; place < way.remedy->stride.size(); ++place) {
    absl::StrAppend(&out, " ", way.remedy->stride[place].value_or(0), " ",
                    way.remedy->copied[place], " ", way.remedy->turned[place]);
  }
  for (const std::optional<int64_t>& at : way.remedy->peeled)
    absl::StrAppend(&out, " ", at.value_or(0));
  for (const int64_t size : way.remedy->widened)
    absl::StrAppend(&out, " ", size);
  return out;
}

std::string KeyOf(const Contraction& c, const LoopProgram& program,
                  const Target& target, const std::vector<AlignWay>& ways) {
  if (ways.empty()) return "";
  std::string words;
  for (const AlignWay& way : ways) absl::StrAppend(&words, WordsOf(way), "\n");
  // Raise the version when the same words come to mean different ways.
  return WayKeyOf("align", absl::StrCat("kiln ways to align 2\n", words), c,
                  program.buffers, program.shapes, target);
}

}  // namespace

std::vector<AlignWay> AlignWaysOf(const Contraction& contraction,
                                  const LoopProgram& program,
                                  const Target& target,
                                  const AlignOptions& options) {
  std::vector<AlignRemedy> remedies =
      RemediesOf(contraction, program, target, options);
  if (remedies.empty()) return {};
  std::vector<AlignWay> ways;
  const auto add = [&](AlignWay way) {
    const bool known = std::any_of(
        ways.begin(), ways.end(),
        [&](const AlignWay& other) { return other.name == way.name; });
    if (!known) ways.push_back(std::move(way));
  };
  std::optional<AlignRemedy> cheapest =
      RemedyOf(contraction, program, target, options);
  std::string name(cheapest.has_value() ? NameOf(*cheapest) : kPlain);
  add({std::move(name), std::move(cheapest)});
  add({std::string(kPlain), std::nullopt});
  for (AlignRemedy& remedy : remedies) {
    std::string remedy_name = NameOf(remedy);
    add({std::move(remedy_name), std::move(remedy)});
  }
  return ways;
}

AlignChoice DecideAlignment(const Contraction& contraction,
                            const LoopProgram& program, const Target& target,
                            const AlignOptions& options,
                            const TuningTable& tuning) {
  AlignChoice choice;
  std::vector<AlignWay> ways =
      AlignWaysOf(contraction, program, target, options);
  if (ways.empty()) return choice;
  choice.key = KeyOf(contraction, program, target, ways);
  const auto found = tuning.find(choice.key);
  auto way = ways.begin();
  if (found != tuning.end()) {
    choice.decision = found->second;
    way = std::find_if(ways.begin(), ways.end(), [&](const AlignWay& other) {
      return other.name == choice.decision;
    });
    if (way == ways.end()) {
      choice.ignored = absl::StrCat("no way to align it is \"",
                                    absl::CEscape(choice.decision), "\"");
      way = ways.begin();
    }
  }
  choice.remedy = std::move(way->remedy);
  return choice;
}

}  // namespace kiln

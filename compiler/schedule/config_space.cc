#include "compiler/schedule/config_space.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/schedule/one_pass_form.h"
#include "compiler/schedule/short_code.h"
#include "compiler/schedule/tuning_key.h"
#include "compiler/schedule/variant_candidates.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

void SetBlocks(const NestCosts& costs, KernelVariant& variant) {
  const int blocks = costs.BlocksOf(variant);
  std::visit(
      [&](auto& v) {
        if constexpr (requires { v.blocks; }) v.blocks = blocks;
      },
      variant);
}

void SetAlone(const Price& price, KernelVariant& variant) {
  std::visit(
      [&](auto& v) {
        if constexpr (requires { v.alone; }) v.alone = price.one_each;
      },
      variant);
}

// A configuration's text without the numbers that follow from the others and from sizes,
// since a decision holds for all sizes of its class.
std::string ChoiceText(absl::string_view config) {
  std::string out;
  bool number = false;
  for (absl::string_view word : absl::StrSplit(config, ' ')) {
    const bool follows = FollowsFromOthers(word);
    if (!number && !follows) absl::StrAppend(&out, word, " ");
    number = follows;
  }
  return out;
}

bool SameChoice(const KernelConfig& a, const KernelConfig& b) {
  return a.one_pass == b.one_pass && a.variant == b.variant;
}

// Whether `a` is better than `b`: any configuration that fits is better than one that
// does not.
bool IsCheaper(const KernelConfig& a, const KernelConfig& b) {
  return a.price.fits != b.price.fits ? a.price.fits : a.price.ns < b.price.ns;
}

}  // namespace

std::string ToText(const KernelConfig& config) {
  return absl::StrCat(ToText(config.variant),
                      config.one_pass ? " one pass" : "");
}

absl::StatusOr<ConfigSpace> ConfigSpace::Of(const LoopNest& nest,
                                            const std::vector<Buffer>& buffers,
                                            const ShapeEnv& shapes,
                                            const Target& target,
                                            const CandidateLimits& limits) {
  ASSIGN_OR_RETURN(NestFacts facts, FactsOf(nest, buffers, shapes));
  ConfigSpace space(nest, buffers, shapes, target, std::move(facts), limits);
  space.Add(NestCosts(nest, space.facts_, buffers, shapes, target), false);
  const std::optional<LoopNest> form =
      target.kind == TargetKind::kCuda ? OnePassForm(nest) : std::nullopt;
  if (form.has_value()) {
    ASSIGN_OR_RETURN(const NestFacts of_form, FactsOf(*form, buffers, shapes));
    space.Add(NestCosts(*form, of_form, buffers, shapes, target), true);
  }
  if (space.configs_.empty()) {
    space.configs_.push_back({.variant = Unmapped{}, .price = {.fits = false}});
  }
  space.preferred_ = space.ShortestNearTie();
  return space;
}

size_t ConfigSpace::ShortestNearTie() const {
  const KernelConfig& best = cheapest();
  size_t shortest = cheapest_;
  if (!best.price.fits) return shortest;
  for (size_t i = 0; i < configs_.size(); ++i) {
    const KernelConfig& config = configs_[i];
    if (!config.price.fits || config.one_pass != best.one_pass ||
        config.price.ns > best.price.ns * kNearTie ||
        !DifferInLengthOnly(config.variant, best.variant))
      continue;
    const int written = ElementsWritten(config.variant);
    const int least = ElementsWritten(configs_[shortest].variant);
    if (written < least ||
        (written == least && IsCheaper(config, configs_[shortest])))
      shortest = i;
  }
  return shortest;
}

void ConfigSpace::Add(const NestCosts& costs, bool one_pass) {
  std::vector<KernelVariant> candidates = CandidatesFor(costs, limits_);
  configs_.reserve(configs_.size() + candidates.size());
  for (KernelVariant& variant : candidates) {
    SetBlocks(costs, variant);
    const Price price = costs.PriceOf(variant);
    SetAlone(price, variant);
    KernelConfig config{std::move(variant), one_pass, price};
    // Equal ones have equal prices, which are quicker to compare.
    const bool again = std::any_of(
        configs_.begin(), configs_.end(), [&](const KernelConfig& other) {
          return other.price.ns == price.ns && SameChoice(config, other);
        });
    if (again) continue;
    configs_.push_back(std::move(config));
    if (IsCheaper(configs_.back(), configs_[cheapest_]))
      cheapest_ = configs_.size() - 1;
  }
}

std::string ConfigSpace::Key() const {
  const bool choice =
      std::any_of(configs_.begin(), configs_.end(), [&](const auto& config) {
        return config.price.fits && !SameChoice(config, cheapest());
      });
  if (!choice) return "";
  return TuningKey(nest_, facts_, buffers_, shapes_, target_, limits_);
}

std::vector<KernelConfig> ConfigSpace::WorthMeasuring() const {
  std::vector<KernelConfig> chosen;
  for (const KernelConfig& config : configs_) {
    const bool worth = config.price.fits &&
                       config.price.ns <= cheapest().price.ns * kWorthMeasuring;
    if (worth) chosen.push_back(config);
  }
  std::stable_sort(chosen.begin(), chosen.end(), IsCheaper);
  std::stable_partition(
      chosen.begin(), chosen.end(),
      [&](const KernelConfig& c) { return SameChoice(c, preferred()); });
  if (chosen.size() > kMostMeasured) chosen.resize(kMostMeasured);
  return chosen;
}

absl::StatusOr<KernelConfig> ConfigSpace::Find(absl::string_view text) const {
  const std::string choice = ChoiceText(text);
  for (const KernelConfig& config : configs_) {
    if (ChoiceText(ToText(config)) != choice) continue;
    if (config.price.fits) return config;
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("tuning decision \"", text,
                                  "\": does not fit the ", target_.name));
  }
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat("tuning decision \"", absl::CEscape(text),
                                "\": is none of the kernel's ", configs_.size(),
                                " configurations, of which the cheapest is \"",
                                ToText(cheapest()), "\""));
}

}  // namespace kiln

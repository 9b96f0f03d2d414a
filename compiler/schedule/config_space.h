#ifndef KILN_COMPILER_SCHEDULE_CONFIG_SPACE_H_
#define KILN_COMPILER_SCHEDULE_CONFIG_SPACE_H_

// The possible configurations of a kernel. The cost model chooses one of them, a
// measurement compares them, and a tuning decision names one. One type serves kernels of
// every family (points, rows, columns, scans, sorts, ...).

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/schedule/candidate_limits.h"
#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

struct KernelConfig {
  KernelVariant variant;
  // Whether the nest is replaced by its one-pass form (one_pass_form.h).
  bool one_pass = false;
  Price price;
};

// The variant's text, followed by " one pass" for the one-pass form. Tuning decisions
// are stored as this text.
std::string ToText(const KernelConfig& config);

// A measurement compares at most kMostMeasured configurations, whose price is at most
// kWorthMeasuring times that of the cheapest one.
inline constexpr size_t kMostMeasured = 12;
inline constexpr double kWorthMeasuring = 1.5;

class ConfigSpace {
 public:
  // All configurations of `nest` with their prices. The nest's addresses must be flat,
  // and its axes merged and in their final order. All arguments must outlive the space.
  //
  // Errors: of FactsOf.
  static absl::StatusOr<ConfigSpace> Of(const LoopNest& nest,
                                        const std::vector<Buffer>& buffers,
                                        const ShapeEnv& shapes,
                                        const Target& target,
                                        const CandidateLimits& limits);

  // Distinct, and in the order of CandidatesFor; those of the one-pass form come last.
  // Never empty: a nest without candidates has one configuration, Unmapped, which does
  // not fit.
  const std::vector<KernelConfig>& configs() const { return configs_; }
  // The cheapest configuration that fits, the first one of equals. If none fits, the
  // cheapest of all.
  const KernelConfig& cheapest() const { return configs_[cheapest_]; }
  // The configuration of a kernel without a tuning decision: the cheapest, or one of
  // nearly the same price whose code is shorter (short_code.h).
  const KernelConfig& preferred() const { return configs_[preferred_]; }

  // The key under which the kernel's tuning decisions are stored (tuning_key.h). Empty
  // if fewer than two configurations fit.
  //
  // Depends only on the nest and the target, not on decisions.
  std::string Key() const;

  // The configurations that a measurement compares: the preferred one, then the others
  // that fit, cheapest first.
  std::vector<KernelConfig> WorthMeasuring() const;

  // The configuration whose text (ToText) is the decision. Errors: BAD_OPTION if the
  // decision names no configuration of the kernel, or one that does not fit.
  absl::StatusOr<KernelConfig> Find(absl::string_view text) const;

 private:
  ConfigSpace(const LoopNest& nest, const std::vector<Buffer>& buffers,
              const ShapeEnv& shapes, const Target& target, NestFacts facts,
              const CandidateLimits& limits)
      : nest_(nest),
        buffers_(buffers),
        shapes_(shapes),
        target_(target),
        facts_(std::move(facts)),
        limits_(limits) {}

  void Add(const NestCosts& costs, bool one_pass);
  size_t ShortestNearTie() const;  // the index of the preferred one

  const LoopNest& nest_;
  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  const Target& target_;
  NestFacts facts_;
  CandidateLimits limits_;
  std::vector<KernelConfig> configs_;
  size_t cheapest_ = 0;
  size_t preferred_ = 0;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CONFIG_SPACE_H_

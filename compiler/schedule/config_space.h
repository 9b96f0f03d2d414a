#ifndef KILN_COMPILER_SCHEDULE_CONFIG_SPACE_H_
#define KILN_COMPILER_SCHEDULE_CONFIG_SPACE_H_

// The configurations that one kernel may have: what the price chooses from, what
// a measurement compares and what a tuning decision names. One type serves the
// kernels of every family (points, rows, columns, scans, sorts, ...).

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

struct KernelConfig {
  KernelVariant variant;
  // Whether it is of the nest's other form (one_pass_form.h).
  bool one_pass = false;
  Price price;
};

// The variant's text, with " one pass" behind it for the other form. Decisions
// are kept in these words.
std::string ToText(const KernelConfig& config);

// The most configurations that a measurement compares, and the largest ratio of their
// modelled price to the cheapest one's.
inline constexpr size_t kMostMeasured = 12;
inline constexpr double kWorthMeasuring = 1.5;

class ConfigSpace {
 public:
  // All configurations of `nest`, whose addresses are flat and whose axes are
  // merged and in their final order, with their prices. All arguments must
  // outlive the space.
  //
  //   max_row  as CandidatesFor
  //
  // Errors: of FactsOf.
  static absl::StatusOr<ConfigSpace> Of(const LoopNest& nest,
                                        const std::vector<Buffer>& buffers,
                                        const ShapeEnv& shapes,
                                        const Target& target, int64_t max_row);

  // In the order of CandidatesFor, those of the one-pass form last. Never empty:
  // a nest without candidates has Unmapped, which does not fit.
  const std::vector<KernelConfig>& configs() const { return configs_; }
  // The cheapest of those that fit, the first of equals; the cheapest of all
  // where none fits.
  const KernelConfig& cheapest() const { return configs_[cheapest_]; }
  // What a kernel gets without a decision: the cheapest, or one of nearly the same
  // price whose code is shorter (short_code.h).
  const KernelConfig& preferred() const { return configs_[preferred_]; }

  // The key under which the kernel's tuning decisions are stored (tuning_key.h). Empty
  // if fewer than two configurations fit.
  //
  // A function of the nest and the target: no decision changes a key.
  std::string Key() const;

  // What a measurement compares: the preferred one, then the cheapest that fit,
  // cheapest first, each once.
  std::vector<KernelConfig> WorthMeasuring() const;

  // The configuration that a decision names in ToText's words. BAD_OPTION says
  // why a decision cannot be taken: it names none of the configurations, or one
  // that does not fit.
  absl::StatusOr<KernelConfig> Find(absl::string_view text) const;

 private:
  ConfigSpace(const LoopNest& nest, const std::vector<Buffer>& buffers,
              const ShapeEnv& shapes, const Target& target, NestFacts facts)
      : nest_(nest),
        buffers_(buffers),
        shapes_(shapes),
        target_(target),
        facts_(std::move(facts)) {}

  void Add(const NestCosts& costs, int64_t max_row, bool one_pass);
  size_t ShortestNearTie() const;  // the index of the preferred one

  const LoopNest& nest_;
  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  const Target& target_;
  const NestFacts facts_;
  std::vector<KernelConfig> configs_;
  size_t cheapest_ = 0;
  size_t preferred_ = 0;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CONFIG_SPACE_H_

#include "compiler/schedule/nest_price.h"

#include <limits>
#include <utility>
#include <variant>

#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/choose_variant.h"
#include "compiler/schedule/jam_windows.h"
#include "compiler/schedule/kernel_fingerprint.h"
#include "compiler/schedule/loop_order.h"

namespace kiln {

Buffer FlatBuffer(Buffer buffer) {
  buffer.sizes = {SpanElements(buffer.sizes, buffer.strides)};
  buffer.strides = {1};
  return buffer;
}

NestPricer::NestPricer(const LoopProgram& program, const Target& target,
                       const CandidateLimits& limits)
    : program_(program), target_(target), limits_(limits) {
  for (const Buffer& buffer : program.buffers)
    flat_.push_back(FlatBuffer(buffer));
}

double NestPricer::PriceOf(const LoopNest& nest) {
  const KernelFingerprint print(nest, program_.buffers,
                                FingerprintSizes::kSizesOnly);
  if (const auto known = known_.find(print.bytes()); known != known_.end())
    return known->second;
  const double price = PriceOfNew(nest);
  known_.emplace(print.bytes(), price);
  return price;
}

double NestPricer::PriceOfNew(LoopNest nest) const {
  FlattenAddresses(nest, program_.buffers);
  nest = MergeAxes(OrderAxes(nest, flat_, program_.shapes), program_.shapes);
  JamWindows(nest, flat_, program_.shapes, target_, limits_);
  const absl::StatusOr<VariantChoice> choice =
      ChooseVariant(nest, flat_, program_.shapes, target_, {.limits = limits_});
  // If a nest breaks an invariant, the verifier reports it later.
  if (!choice.ok()) return kLaunchNs;
  if (std::holds_alternative<Unmapped>(choice->config.variant) ||
      !choice->config.price.fits) {
    return std::numeric_limits<double>::infinity();
  }
  return kLaunchNs + choice->config.price.ns;
}

}  // namespace kiln

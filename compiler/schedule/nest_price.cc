#include "compiler/schedule/nest_price.h"

#include <limits>
#include <utility>
#include <variant>

#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/choose_variant.h"
#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/jam_windows.h"
#include "compiler/schedule/kernel_fingerprint.h"
#include "compiler/schedule/loop_order.h"

namespace kiln {

Buffer FlatBuffer(Buffer buffer) {
  buffer.sizes.assign(1, SpanElements(buffer.sizes, buffer.strides));
  buffer.strides.assign(1, 1);
  return buffer;
}

NestPricer::NestPricer(const LoopProgram& program, const Target& target,
                       const CandidateLimits& limits)
    : program_(program), target_(target), limits_(limits) {}

double NestPricer::PriceOf(const LoopNest& nest) {
  const KernelFingerprint print(nest, program_.buffers,
                                FingerprintSizes::kSizesOnly);
  if (const auto known = known_.find(print.bytes()); known != known_.end())
    return known->second;
  const double price = PriceOfNew(nest);
  known_.emplace(print.bytes(), price);
  return price;
}

double NestPricer::PriceOfPair(const LoopNest& a, const LoopNest& b,
                               absl::FunctionRef<LoopNest()> join) {
  KernelFingerprint print(a, program_.buffers, FingerprintSizes::kSizesOnly);
  print.AddNest(b);
  // The fingerprint does not say whether two random streams are the same.
  if (print.streams().size() > 1) return PriceOf(join());
  if (const auto known = pairs_.find(print.bytes()); known != pairs_.end())
    return known->second;
  const double price = PriceOf(join());
  pairs_.emplace(print.bytes(), price);
  return price;
}

void NestPricer::Flatten(const LoopNest& nest) {
  flat_.resize(program_.buffers.size());
  VisitStepBuffers(nest, [&](BufferId b, bool) {
    // Flat buffers have one dimension.
    if (flat_[b].sizes.empty()) flat_[b] = FlatBuffer(program_.buffers[b]);
  });
}

double NestPricer::PriceOfNew(LoopNest nest) {
  Flatten(nest);
  FlattenAddresses(nest, program_.buffers);
  nest = MergeAxes(OrderAxes(std::move(nest), flat_, program_.shapes),
                   program_.shapes);
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

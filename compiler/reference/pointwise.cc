#include "compiler/reference/pointwise.h"

#include <utility>

namespace kiln {
namespace {

// Whether the operator computes in float64: a f64 result, or a comparison
// among whose tensors one is f64.
bool ComputesInDouble(RefCall& call,
                      const std::vector<absl::string_view>& names) {
  if (call.num_results() > 0 && call.result(0).dtype == DType::kFloat64) {
    return true;
  }
  if (call.num_results() > 0 && IsFloat(call.result(0).dtype)) return false;
  for (absl::string_view name : names) {
    if (!call.IsNumber(name) && call.Tensor(name).dtype == DType::kFloat64) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Elements> LoadTogether(RefCall& call,
                                   std::vector<absl::string_view> names) {
  const bool in_double = ComputesInDouble(call, names);
  std::vector<Elements> loaded;
  Sizes sizes;
  bool floating = call.num_results() > 0 && IsFloat(call.result(0).dtype);
  for (absl::string_view name : names) {
    Elements e = call.Load(name);
    if (call.IsNumber(name) && !in_double) {
      for (double& v : e.f) v = static_cast<float>(v);
    }
    sizes = BroadcastSizes(sizes, e.sizes);
    floating = floating || e.floating;
    loaded.push_back(std::move(e));
  }
  for (Elements& e : loaded) {
    e = e.Broadcast(sizes);
    if (floating) e = e.AsFloats();
  }
  return loaded;
}

}  // namespace kiln

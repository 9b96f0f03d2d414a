#include "compiler/loop/loop_nest.h"

#include <cstddef>

namespace kiln {
namespace {

// In order of the enum.
constexpr absl::string_view kOrders[] = {"sort", "top",    "top_unsorted",
                                         "kth",  "median", "nanmedian"};

}  // namespace

absl::string_view OrderName(RowOrder::How how) {
  return kOrders[static_cast<size_t>(how)];
}

std::optional<RowOrder::How> OrderFromName(absl::string_view name) {
  uint8_t number = 0;
  for (const absl::string_view order : kOrders) {
    if (order == name) return static_cast<RowOrder::How>(number);
    ++number;
  }
  return std::nullopt;
}

}  // namespace kiln

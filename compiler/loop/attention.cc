#include "compiler/loop/attention.h"

namespace kiln {
namespace {

struct PlaceRow {
  absl::string_view name, axes;
};
constexpr PlaceRow kPlaceRows[Attention::kPlaces] = {
    {"query", "bhme"},      {"key", "bxne"},      {"value", "bxnv"},
    {"out", "bhmv"},        {"logsumexp", "bhm"}, {"bias", "bhmn"},
    {"seed", ""},           {"offset", ""},       {"grad", "bhmv"},
    {"query_grad", "bhme"}, {"key_grad", "bxne"}, {"value_grad", "bxnv"}};

constexpr absl::string_view kCausalNames[] = {"", "top_left", "bottom_right"};

}  // namespace

absl::string_view PlaceName(size_t place) { return kPlaceRows[place].name; }
absl::string_view AxisLetters() { return "bhxmnev"; }
absl::string_view AxesOf(size_t place) { return kPlaceRows[place].axes; }

absl::string_view CausalName(Attention::Causal causal) {
  return kCausalNames[static_cast<size_t>(causal)];
}

std::optional<Attention::Causal> CausalFromName(absl::string_view name) {
  for (size_t i = 0; i < std::size(kCausalNames); ++i) {
    if (kCausalNames[i] == name) return static_cast<Attention::Causal>(i);
  }
  return std::nullopt;
}

}  // namespace kiln

#include "compiler/loop/attention_verifier.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Broken(const Attention& a, absl::string_view rule,
                    absl::string_view what) {
  return absl::InternalError(
      absl::StrCat(rule, " at attention ", a.origin, ": ", what));
}

bool IsDue(const Attention& a, size_t place) {
  switch (place) {
    case Attention::kBias:
      return a.arrays[place].has_value();
    case Attention::kSeed:
    case Attention::kOffset:
      return a.dropout > 0;
    case Attention::kGrad:
    case Attention::kQueryGrad:
    case Attention::kKeyGrad:
    case Attention::kValueGrad:
      return a.backward;
    default:
      return true;
  }
}

bool HasDueType(const Attention& a, size_t place, DType found) {
  switch (place) {
    case Attention::kBias:
      return found == a.at(Attention::kQuery).dtype || found == DType::kFloat32;
    case Attention::kSeed:
    case Attention::kOffset:
      return found == DType::kInt64;
    case Attention::kLogsumexp:
      return found == DType::kFloat32;
    default:
      return found == a.at(Attention::kQuery).dtype && IsFloat(found);
  }
}

absl::Status VerifyArray(const Attention& a, size_t place,
                         const std::vector<Buffer>& buffers) {
  const View& view = *a.arrays[place];
  const absl::string_view name = PlaceName(place), axes = AxesOf(place);
  if (view.buffer >= buffers.size())
    return Broken(a, "A2", absl::StrCat(name, ": no buffer ", view.buffer));
  bool fits =
      view.sizes.size() == axes.size() && view.strides.size() == axes.size();
  for (size_t d = 0; fits && d < axes.size(); ++d)
    fits = view.sizes[d] == a.extents[AxisLetters().find(axes[d])];
  if (!fits) {
    return Broken(a, "A2",
                  absl::StrCat(name, ": found ", view.sizes.size(),
                               " sizes and ", view.strides.size(),
                               " strides, expected those of ", axes));
  }
  if (HasDueType(a, place, view.dtype)) return absl::OkStatus();
  return Broken(a, "A3", absl::StrCat(name, ": found ", ShortName(view.dtype)));
}

}  // namespace

absl::Status VerifyAttention(const Attention& a,
                             const std::vector<Buffer>& buffers) {
  if (!std::isfinite(a.scale) || !(a.dropout >= 0 && a.dropout < 1) ||
      a.window < 0) {
    return Broken(a, "A4",
                  absl::StrCat("scale ", a.scale, ", dropout ", a.dropout,
                               ", window ", a.window));
  }
  for (size_t place = 0; place < Attention::kPlaces; ++place) {
    const bool found = a.arrays[place].has_value();
    if (found != IsDue(a, place)) {
      return Broken(
          a, "A1",
          absl::StrCat(found ? "found " : "expected ", PlaceName(place)));
    }
  }
  for (size_t place = 0; place < Attention::kPlaces; ++place) {
    if (a.arrays[place].has_value())
      RETURN_IF_ERROR(VerifyArray(a, place, buffers));
  }
  return absl::OkStatus();
}

}  // namespace kiln

#include "compiler/loop/contraction.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln {

std::string AxisName(const Contraction& contraction, size_t k) {
  if (contraction.form == Contraction::Form::kProduct) {
    const size_t skip = contraction.is_batched() ? 0 : 1;
    return std::string(1, "bmnk"[k + skip]);
  }
  if (k < 4) return std::string(1, "bgoc"[k]);
  const size_t spatial = contraction.spatial();
  return k < 4 + spatial ? absl::StrCat("y", k - 4)
                         : absl::StrCat("w", k - 4 - spatial);
}

absl::string_view FormName(Contraction::Form form) {
  return form == Contraction::Form::kProduct ? "product" : "convolution";
}

absl::string_view OperandName(size_t place) {
  constexpr absl::string_view kNames = "abc";
  return kNames.substr(place, 1);
}

bool HasKnownAxes(const Contraction& contraction, std::string& expected) {
  const size_t count = contraction.extents.size();
  if (contraction.form == Contraction::Form::kProduct) {
    expected = "axes [b,] m, n, k";
    return count == 3 || count == 4;
  }
  expected = "axes b, g, o, c, y..., w... of one to three dimensions";
  return count % 2 == 0 && count >= 6 &&
         count <= 4 + 2 * Contraction::kMaxSpatial;
}

ScalarId SumOf(const Contraction& contraction) {
  const auto sum = std::find_if(
      contraction.body.begin(), contraction.body.end(),
      [](const ScalarNode& node) { return node.op == ScalarOp::kContract; });
  return static_cast<ScalarId>(sum - contraction.body.begin());
}

bool HasPlainFactors(const Contraction& contraction) {
  const ScalarNode& sum = contraction.body[SumOf(contraction)];
  for (size_t k = 0; k < 2; ++k) {
    const ScalarNode* factor = &contraction.body[sum.args[k]];
    if (factor->op == ScalarOp::kCast)
      factor = &contraction.body[factor->args[0]];
    if (factor->op != ScalarOp::kFactor ||
        factor->number.i != static_cast<int64_t>(k)) {
      return false;
    }
  }
  return true;
}

}  // namespace kiln

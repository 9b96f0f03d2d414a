#include "proto/corpus/corpus_compare.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln {
namespace {

Comparison Differs(std::string difference) {
  const double infinity = std::numeric_limits<double>::infinity();
  return {.equal = false,
          .error = infinity,
          .ratio = infinity,
          .difference = std::move(difference)};
}

std::string ListText(const std::vector<int64_t>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ", "), "]");
}

bool SameStrides(const TensorLayout& a, const TensorLayout& b) {
  if (NumElements(a.sizes) == 0) return true;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

struct ElementError {
  double error;
  double allowed;
  double ratio;
};

ElementError JudgeFloat(double got, double expected, Tolerance tolerance) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (std::isnan(expected) || std::isnan(got)) {
    const bool both = std::isnan(expected) && std::isnan(got);
    return {both ? 0 : infinity, 0, both ? 0 : infinity};
  }
  if (got == expected) return {0, 0, 0};
  const double allowed = tolerance.atol + tolerance.rtol * std::fabs(expected);
  const double error = std::fabs(got - expected);
  if (std::isinf(expected) || std::isinf(got)) return {error, 0, infinity};
  return {error, allowed, allowed > 0 ? error / allowed : infinity};
}

ElementError JudgeInteger(int64_t got, int64_t expected) {
  if (got == expected) return {0, 0, 0};
  return {std::fabs(static_cast<double>(got) - static_cast<double>(expected)),
          0, std::numeric_limits<double>::infinity()};
}

std::string IndexText(int64_t flat, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> index(sizes.size());
  for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) {
    index[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return ListText(index);
}

ElementError JudgeElement(DType dtype, const char* got, const char* expected,
                          Tolerance tolerance) {
  if (dtype == DType::kInt64) {
    int64_t a = 0;
    int64_t b = 0;
    std::memcpy(&a, got, sizeof(a));
    std::memcpy(&b, expected, sizeof(b));
    return JudgeInteger(a, b);
  }
  const double a = ElementAsDouble(dtype, got);
  const double b = ElementAsDouble(dtype, expected);
  if (!IsFloat(dtype)) {
    return JudgeInteger(static_cast<int64_t>(a), static_cast<int64_t>(b));
  }
  return JudgeFloat(a, b, tolerance);
}

Comparison CompareElements(const ComputedTensor& got,
                           const CorpusTensor& expected, Tolerance tolerance) {
  const DType dtype = got.layout.dtype;
  const int64_t width = SizeInBytes(dtype);
  const std::string left = Gather(got.layout, got.first);
  const std::string right = Gather(expected.layout, expected.data());
  const int64_t count = NumElements(got.layout.sizes);
  Comparison out;
  int64_t worst = -1;
  for (int64_t i = 0; i < count; ++i) {
    const ElementError e = JudgeElement(dtype, left.data() + i * width,
                                        right.data() + i * width, tolerance);
    if (e.ratio <= out.ratio) continue;
    out.error = e.error;
    out.allowed = e.allowed;
    out.ratio = e.ratio;
    worst = i;
  }
  out.equal = out.ratio <= 1;
  if (!out.equal) {
    out.difference = absl::StrCat(
        IndexText(worst, got.layout.sizes), ": ",
        ElementAsDouble(dtype, left.data() + worst * width), ", expected ",
        ElementAsDouble(dtype, right.data() + worst * width), ", off by ",
        out.error, ", allowed ", out.allowed);
  }
  return out;
}

}  // namespace

Comparison CompareTensors(const ComputedTensor& got,
                          const CorpusTensor& expected, Tolerance tolerance) {
  const TensorLayout& due = expected.layout;
  if (got.layout.dtype != due.dtype) {
    return Differs(absl::StrCat("dtype ", ShortName(got.layout.dtype),
                                ", expected ", ShortName(due.dtype)));
  }
  if (got.layout.sizes != due.sizes) {
    return Differs(absl::StrCat("sizes ", ListText(got.layout.sizes),
                                ", expected ", ListText(due.sizes)));
  }
  if (!SameStrides(got.layout, due)) {
    return Differs(absl::StrCat("strides ", ListText(got.layout.strides),
                                ", expected ", ListText(due.strides)));
  }
  return CompareElements(got, expected, tolerance);
}

}  // namespace kiln

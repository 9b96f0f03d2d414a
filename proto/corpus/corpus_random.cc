#include "proto/corpus/corpus_random.h"

#include <cmath>
#include <utility>

namespace kiln {
namespace {

// SplitMix64: a whole generator in three lines, the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // In (0, 1].
  double Uniform() {
    return std::ldexp(static_cast<double>((Bits() >> 11) + 1), -53);
  }

  // The sum of twelve uniforms, less six: normal enough, and without the
  // host's log and cos.
  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += Uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

CorpusTensor RandomTensor(const CorpusInputSpec& spec, Random& random) {
  const DType dtype = spec.layout.dtype;
  const int64_t width = SizeInBytes(dtype);
  const int64_t count = StorageElements(spec.layout);
  CorpusTensor out{spec.layout, std::vector<char>(count * width)};
  const auto [low, high] =
      spec.int_range.value_or(std::pair<int64_t, int64_t>(0, 1));
  for (int64_t i = 0; i < count; ++i) {
    const double value =
        IsFloat(dtype)
            ? random.Normal()
            : static_cast<double>(
                  low +
                  static_cast<int64_t>(random.Bits() %
                                       static_cast<uint64_t>(high - low + 1)));
    StoreElement(dtype, value, out.storage.data() + i * width);
  }
  return out;
}

}  // namespace

std::vector<CorpusValue> RandomInputs(const CorpusCase& test_case,
                                      uint64_t seed) {
  Random random(seed);
  std::vector<CorpusValue> inputs;
  for (const auto& spec : test_case.specs) {
    if (const auto* tensor = std::get_if<CorpusInputSpec>(&spec)) {
      inputs.emplace_back(RandomTensor(*tensor, random));
    } else {
      inputs.emplace_back(std::get<int64_t>(spec));
    }
  }
  return inputs;
}

}  // namespace kiln

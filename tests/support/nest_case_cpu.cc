#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/nest_case.h"

namespace kiln {
namespace {

// Runs the pieces one after another from the last to the first.
void Backwards(const KilnCpuRuntime*, int64_t count, int64_t grain,
               void (*body)(void*, int64_t, int64_t), void* context) {
  for (int64_t begin = (count - 1) / grain * grain; begin >= 0; begin -= grain)
    body(context, begin, std::min(begin + grain, count));
}

}  // namespace

void NestCase::RunOnCpu(KilnCpuKernel entry, const KernelSource& source,
                        const std::string& where, double tolerance) const {
  const Trial trial = Interpret();
  const auto call = [&](int64_t threads) {
    KilnBadData bad = {};
    const KilnCpuRuntime runtime = {threads, &Backwards, &bad};
    auto memory = FilledMemory(trial.counts);
    std::vector<void*> pointers;
    std::vector<int64_t> scalars;
    for (const KernelParam& param : source.params) {
      switch (param.kind) {
        case KernelParam::Kind::kBuffer:
          pointers.push_back(memory[param.buffer].data());
          break;
        case KernelParam::Kind::kScalar:
          scalars.push_back(Value(param.scalar));
          break;
        case KernelParam::Kind::kSeedSlot:
          ADD_FAILURE() << where << ": a CPU kernel takes the seed itself";
          break;
        case KernelParam::Kind::kSeed:
          scalars.push_back(static_cast<int64_t>(kSeed));
          break;
      }
    }
    entry(pointers.data(), scalars.data(), &runtime);
    EXPECT_EQ(bad.found == 0, trial.inside) << where << ": index " << bad.index;
    return memory;
  };
  const auto found = call(1);
  EXPECT_EQ(found, call(4)) << where << ": threads change results";
  Compare(trial, found, where, tolerance);
}

}  // namespace kiln

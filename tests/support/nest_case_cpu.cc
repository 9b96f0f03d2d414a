#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "compiler/toolchain/host_cc_toolchain.h"
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

void NestCase::CheckOnCpu(double tolerance) {
  RunOn("x86-64", tolerance);
  if (__builtin_cpu_supports("avx2")) RunOn("x86-64-v3", tolerance);
  if (__builtin_cpu_supports("avx512bw")) RunOn("x86-64-v4", tolerance);
}

void NestCase::RunOn(const std::string& level, double tolerance) {
  const auto target = TargetFromName(level);
  ASSERT_TRUE(target.ok());
  const auto source = Source(*target);
  ASSERT_TRUE(source.ok()) << source.status();
  const std::vector<UnitSource> units = GroupIntoUnits({*source}, *target);
  ASSERT_EQ(units.size(), 1u);
  auto toolchain = MakeHostCcToolchain({.scratch_dir = testing::TempDir()});
  const auto built = toolchain->Build(units[0].source, UnitFlags(*target));
  ASSERT_TRUE(built.ok()) << built.status() << "\n" << units[0].source;
  EXPECT_EQ(built->log, "");

  std::string file = testing::TempDir() + "/case_XXXXXX";
  const int fd = mkstemp(file.data());
  ASSERT_EQ(write(fd, built->image.data(), built->image.size()),
            static_cast<ssize_t>(built->image.size()));
  close(fd);
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  unlink(file.c_str());
  const auto entry =
      reinterpret_cast<KilnCpuKernel>(dlsym(module, source->symbol.c_str()));
  ASSERT_NE(entry, nullptr);

  RunOnCpu(entry, *source, level, tolerance);
  if (testing::Test::HasFailure()) ADD_FAILURE() << units[0].source;
}

void NestCase::RunOnCpu(KilnCpuKernel entry, const KernelSource& source,
                        const std::string& where, double tolerance) const {
  const Trial trial = Interpret();
  const auto call = [&](int64_t threads) {
    KilnBadIndex bad = {};
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

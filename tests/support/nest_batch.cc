#include "tests/support/nest_batch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "runtime/shared_object.h"
#include "tests/support/nvrtc_of_tests.h"

namespace kiln {
namespace {

// CUDA's kernels run on this one.
constexpr char kRunsOn[] = "sm_90";

std::unique_ptr<Toolchain> MakeToolchain(const Target& target, int thread) {
  if (target.kind == TargetKind::kCuda)
    return MakeNvrtcToolchain({.library_dirs = NvrtcFoldersOfTests()});
  const std::string scratch =
      absl::StrCat(testing::TempDir(), "/builder_", thread);
  std::filesystem::create_directories(scratch);
  return MakeHostCcToolchain({.scratch_dir = scratch});
}

absl::StatusOr<BuiltObject> Build(const UnitSource& unit, const Target& target,
                                  Toolchain& toolchain) {
  auto built = toolchain.Build(unit.source, UnitFlags(target));
  if (!built.ok() || target.name != kRunsOn || !built->log.empty())
    return built;
  return BuildToRun(*built, unit.source);
}

std::vector<absl::StatusOr<BuiltObject>> BuildAll(
    const std::vector<UnitSource>& units, const Target& target, int threads) {
  std::vector<absl::StatusOr<BuiltObject>> built(units.size());
  std::vector<std::thread> builders;
  for (int first = 0; first < threads; ++first) {
    builders.emplace_back([&, first] {
      const auto toolchain = MakeToolchain(target, first);
      for (size_t u = first; u < units.size(); u += threads)
        built[u] = Build(units[u], target, *toolchain);
    });
  }
  for (std::thread& builder : builders) builder.join();
  return built;
}

// The CPU kernel `symbol` of `image`, checked while it is loaded.
void RunOnCpu(const MappedNest& nest, const KernelSource& source,
              const std::string& image) {
  const auto module = LoadSharedObject(image);
  ASSERT_TRUE(module.ok()) << module.status();
  const auto entry = (*module)->FindKernel(source.symbol, /*shared_bytes=*/0);
  ASSERT_TRUE(entry.ok()) << entry.status();
  nest.nest.RunOnCpu(reinterpret_cast<KilnCpuKernel>(*entry), source, nest.what,
                     nest.tolerance);
}

}  // namespace

void CheckTogether(const std::vector<MappedNest>& nests, const Target& target,
                   int threads) {
  if (target.kind == TargetKind::kCuda)
    KILN_LEAVE_WITHOUT_NVRTC(MakeToolchain(target, 0)->Version().status());
  std::vector<KernelSource> sources;
  for (const MappedNest& nest : nests) {
    auto source = nest.nest.Source(target);
    ASSERT_TRUE(source.ok()) << nest.what << ": " << source.status();
    sources.push_back(*std::move(source));
  }
  const std::vector<UnitSource> units = GroupIntoUnits(sources, target);
  const auto built = BuildAll(units, target, threads);
  std::map<std::string, const BuiltObject*> holder;  // of each symbol
  for (size_t u = 0; u < units.size(); ++u) {
    ASSERT_TRUE(built[u].ok()) << built[u].status() << "\n" << units[u].source;
    EXPECT_EQ(built[u]->log, "") << units[u].source;
    for (const std::string& symbol : units[u].symbols)
      holder[symbol] = &*built[u];
  }
  if (target.kind == TargetKind::kCuda && target.name != kRunsOn) return;
  for (size_t n = 0; n < nests.size(); ++n) {
    const std::string& image = holder.at(sources[n].symbol)->image;
    if (target.kind == TargetKind::kCpu) {
      RunOnCpu(nests[n], sources[n], image);
    } else {
      nests[n].nest.RunOnCuda(image, sources[n], nests[n].what,
                              nests[n].tolerance);
    }
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << nests[n].what << "\n" << sources[n].text;
      return;
    }
  }
}

}  // namespace kiln

// Random graphs through the whole compiler, the host's own compiler and the
// runtime give what the reference interpreter gives of the graph that came in.
// The kernels of all graphs are built together, in few units.
//
//   random_kernels_test --test_arg=FIRST --test_arg=COUNT   other seeds, and so many
//
// COUNT is also how many nests each mapping of the CPU is tried with: `./kiln soak`
// gives more than 200.

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/write_kernels.h"
#include "compiler/emit/build_compile_plan.h"
#include "compiler/emit/describe_kernels.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/reference/run_reference.h"
#include "compiler/schedule/plan_pipeline.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "gtest/gtest.h"
#include "proto/base/assemble.h"
#include "runtime/executor.h"
#include "runtime/open_device.h"
#include "tests/compiler/schedule/plan_check.h"
#include "tests/support/random_graph.h"

namespace kiln {
namespace {

uint64_t first_seed = 1;
uint64_t seed_count = 40;

constexpr int kThreads = 2;  // that build

// A graph on its way down.
struct Sample {
  std::string text;
  Graph graph;
  std::vector<RefValue> inputs;
  RefOutcome due;
  double tolerance = 0;
  KernelPlan plan;
  std::vector<KernelSource> sources;
};

absl::StatusOr<Sample> Planned(std::string text, const Target& target) {
  Sample sample;
  sample.text = std::move(text);
  ASSIGN_OR_RETURN(sample.graph, ParseGraph(sample.text));
  sample.inputs = RandomInputs(sample.graph);
  ASSIGN_OR_RETURN(sample.due, RunReference(sample.graph, sample.inputs));
  sample.tolerance = ToleranceOf(sample.graph);
  std::vector<PassRecord> records;
  RETURN_IF_ERROR(RunGraphPipeline(sample.graph, PassEnv{target, {}}, records));
  ASSIGN_OR_RETURN(LoopProgram loops, LowerGraph(sample.graph, {}));
  ASSIGN_OR_RETURN(sample.plan,
                   PlanKernels(std::move(loops), PassEnv{target, {}}));
  ASSIGN_OR_RETURN(sample.sources, WriteKernels(sample.plan, target));
  return sample;
}

// Object code of all units, in their order; each thread has a toolchain and a
// folder for it.
std::vector<absl::StatusOr<BuiltObject>> Build(
    const std::vector<UnitSource>& units, const Target& target) {
  std::vector<absl::StatusOr<BuiltObject>> built(units.size());
  std::vector<std::thread> threads;
  for (size_t first = 0; first < kThreads; ++first) {
    threads.emplace_back([&, first] {
      const std::string scratch =
          absl::StrCat(testing::TempDir(), "/builder_", first);
      std::filesystem::create_directories(scratch);
      auto toolchain = MakeHostCcToolchain({.scratch_dir = scratch});
      for (size_t u = first; u < units.size(); u += kThreads)
        built[u] = toolchain->Build(units[u].source, UnitFlags(target));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return built;
}

// An artifact of the sample's plan with those of `units` that it needs.
absl::StatusOr<wire::SignedArtifact> Assembled(
    const Sample& sample, const std::vector<UnitSource>& units,
    const std::vector<absl::StatusOr<BuiltObject>>& built,
    const Target& target) {
  std::set<std::string> named;
  for (const KernelSource& source : sample.sources) named.insert(source.symbol);
  std::vector<UnitSource> needed;
  std::vector<const BuiltObject*> images;
  for (size_t u = 0; u < units.size(); ++u) {
    bool needs = false;
    for (const std::string& symbol : units[u].symbols)
      needs |= named.count(symbol) > 0;
    if (!needs) continue;
    RETURN_IF_ERROR(built[u].status());
    needed.push_back(units[u]);
    images.push_back(&*built[u]);
  }
  ASSIGN_OR_RETURN(
      wire::CompilePlan plan,
      BuildCompilePlan(sample.graph, sample.plan,
                       DescribeKernels(sample.plan, sample.sources), needed,
                       target, UnitFlags(target)));
  std::vector<wire::ObjectCode> objects;
  for (size_t u = 0; u < needed.size(); ++u) {
    wire::ObjectCode& object = objects.emplace_back();
    object.set_unit_digest(plan.units(static_cast<int>(u)).digest());
    object.set_image(images[u]->image);
  }
  wire::Target wire_target;
  wire_target.mutable_cpu()->set_level(target.name);
  wire::SignedArtifact sealed;
  ASSIGN_OR_RETURN(
      *sealed.mutable_artifact(),
      AssembleArtifact(std::move(plan), std::move(objects), wire_target,
                       Sha256Of(sample.text), Sha256Of("request")));
  sealed.set_xxh3(Xxh3_64(sealed.artifact()));
  return sealed;
}

Tensor ToTensor(const RefTensor& from) {
  Tensor tensor;
  tensor.dtype = from.dtype;
  tensor.data = from.storage->data() + from.offset * SizeInBytes(from.dtype);
  tensor.storage = from.storage->data();
  tensor.owner = from.storage;
  tensor.storage_offset = from.offset;
  tensor.sizes.assign(from.sizes.begin(), from.sizes.end());
  tensor.strides.assign(from.strides.begin(), from.strides.end());
  return tensor;
}

RefTensor FromTensor(const Tensor& from) {
  RefTensor tensor =
      RefTensor::Zeros(from.dtype, Sizes(from.sizes.begin(), from.sizes.end()),
                       Sizes(from.strides.begin(), from.strides.end()));
  if (tensor.numel() > 0)
    std::memcpy(tensor.storage->data(), from.data, tensor.storage->size());
  return tensor;
}

absl::StatusOr<std::vector<RefValue>> Run(const wire::SignedArtifact& sealed,
                                          const std::vector<RefValue>& inputs,
                                          const OpenedDevice& device) {
  TrustPolicy trust;
  trust.unsigned_artifacts = TrustPolicy::Unsigned::kAllow;
  ASSIGN_OR_RETURN(ArtifactView view,
                   ArtifactView::Parse(sealed, trust, device.device->traits()));
  ASSIGN_OR_RETURN(auto loaded, LoadedArtifact::Load(std::move(view), device));
  ASSIGN_OR_RETURN(auto executor, Executor::Create(std::move(loaded)));
  std::vector<InputValue> given;
  for (const RefValue& input : inputs) {
    const auto* tensor = std::get_if<RefTensor>(&input);
    given.push_back(tensor != nullptr ? InputValue(ToTensor(*tensor))
                                      : InputValue(std::get<int64_t>(input)));
  }
  ASSIGN_OR_RETURN(std::vector<OutputValue> outputs,
                   executor->Run(given, RunOptions()));
  std::vector<RefValue> got;
  for (const OutputValue& output : outputs)
    got.push_back(FromTensor(std::get<Tensor>(output)));
  return got;
}

// How many kernels have each variant, by its text; with " argmax" behind it where
// they look for a place.
using Counts = std::map<std::string, int>;

void Count(const KernelPlan& plan, Counts& counts) {
  for (const auto& step : plan.steps) {
    const auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    std::string words = ToText(kernel->variant);
    for (const ScalarNode& node : kernel->nest.body)
      if (IsArgReduction(node.reduce)) words += " argmax";
    ++counts[words];
  }
}

void ExpectComputed(const std::vector<std::string>& texts, const Target& target,
                    Counts& counts) {
  std::vector<Sample> samples;
  std::vector<KernelSource> sources;
  for (const std::string& text : texts) {
    auto sample = Planned(text, target);
    ASSERT_TRUE(sample.ok()) << sample.status() << "\n" << text;
    sources.insert(sources.end(), sample->sources.begin(),
                   sample->sources.end());
    Count(sample->plan, counts);
    samples.push_back(*std::move(sample));
  }
  const std::vector<UnitSource> units = GroupIntoUnits(sources, target);
  const auto built = Build(units, target);
  const auto device = OpenDevice({.threads = kThreads});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const Sample& sample : samples) {
    const auto sealed = Assembled(sample, units, built, target);
    ASSERT_TRUE(sealed.ok()) << sealed.status() << "\n" << sample.text;
    const auto got = Run(*sealed, sample.inputs, *device);
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << sample.text;
    ASSERT_EQ(got->size(), sample.due.outputs.size()) << sample.text;
    for (size_t k = 0; k < got->size(); ++k) {
      ExpectClose((*got)[k], sample.due.outputs[k], sample.tolerance,
                  "output " + std::to_string(k) + "\n" + sample.text);
    }
  }
}

Counts ExpectComputed(const std::vector<std::string>& texts,
                      absl::string_view level = "x86-64-v3") {
  const Target target = *TargetFromName(level);
  Counts counts;
  ExpectComputed(texts, target, counts);
  return counts;
}

TEST(RandomKernels, ComputeWhatTheReferenceComputes) {
  std::vector<std::string> texts;
  for (uint64_t seed = first_seed; seed < first_seed + seed_count; ++seed)
    for (const int nodes : {4, 14}) texts.push_back(RandomGraph(seed, nodes));
  ExpectComputed(texts);
}

// The runtime sorts these; the inputs of halves and integers have many equals,
// which keep their order.
TEST(SortedRows, ComputeWhatTheReferenceComputes) {
  std::vector<std::string> texts;
  for (const char* dtype : {"f32", "bf16", "f16", "i64", "bool"}) {
    for (const char* call : {"sort.stable(%x, true, 1, true)", "sort(%x, 0)"}) {
      texts.push_back(absl::StrCat(
          "graph @g()(%x: ", dtype,
          "[300, 400]) -> (%v, %i) {\n  %v, %i = ", call, "\n}\n"));
    }
  }
  texts.push_back(
      "graph @g(N in [2, 999] = 500)(%x: f32[3, N]) -> (%v, %i) {\n"
      "  %l = log(%x)\n"  // of negative numbers: NaN
      "  %v, %i = sort(%l)\n}\n");
  ExpectComputed(texts);
}

// One channel a group, groups that a kernel holds, and groups that are too large.
TEST(GroupNormBackward, ComputesWhatTheReferenceComputes) {
  struct Sizes {
    int channels, groups, side;
  };
  std::vector<std::string> texts;
  for (const auto& [channels, groups, side] :
       {Sizes{6, 6, 20}, Sizes{6, 2, 5}, Sizes{12, 2, 80}}) {
    const std::string image = absl::StrCat("[3, ", channels, ", ", side, ", ",
                                           side, "]"),
                      rows = absl::StrCat("[3, ", groups, "]");
    texts.push_back(absl::StrCat(
        "graph @g()(%g: f32", image, ", %x: f32", image, ", %m: f32", rows,
        ", %r: f32", rows, ", %w: f32[", channels,
        "]) -> (%dx, %dw, %db) {\n"
        "  %dx, %dw, %db = native_group_norm_backward(%g, %x, %m, %r, %w, 3, ",
        channels, ", ", side * side, ", ", groups,
        ", [true, true, true])\n}\n"));
  }
  ExpectComputed(texts);
}

// --- Each of the CPU's mappings, in many shapes and dtypes.

// Some nests get another mapping: too small, or of a dtype without vectors.
int LeastHits() { return static_cast<int>(seed_count * 9 / 10); }

std::string BestLevel() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl")
             ? "x86-64-v4"
             : "x86-64-v3";
}

// Kernels whose variant has this text in it.
int CountOf(const Counts& counts, absl::string_view words) {
  int found = 0;
  for (const auto& [variant, count] : counts)
    if (absl::StrContains(variant, words)) found += count;
  return found;
}

class Numbers {
 public:
  explicit Numbers(uint64_t seed) : random_(seed) {}
  int From(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  const char* Of(std::initializer_list<const char*> words) {
    return words.begin()[From(0, static_cast<int>(words.size()) - 1)];
  }

 private:
  std::mt19937_64 random_;
};

TEST(CpuMappings, ScansOfRows) {
  Numbers random(first_seed);
  std::vector<std::string> texts;
  for (uint64_t k = 0; k < seed_count; ++k) {
    const int rows = random.From(2, 9), length = random.From(20, 90);
    const char* dtype = random.Of({"f32", "f32", "bf16", "f16", "f64", "i64"});
    const char* call = random.Of({"cumsum", "cumprod"});
    texts.push_back(absl::StrCat("graph @g()(%x: ", dtype, "[", rows, ", ",
                                 length, "]) -> (%y) {\n  %s = mul.Tensor(%x, ",
                                 "%x)\n  %y = ", call, "(%s, 1)\n}\n"));
  }
  EXPECT_GE(CountOf(ExpectComputed(texts, BestLevel()), "cpu scans"),
            LeastHits());
}

TEST(CpuMappings, TilesThatTranspose) {
  Numbers random(first_seed + 1);
  std::vector<std::string> texts;
  for (uint64_t k = 0; k < seed_count; ++k) {
    const int a = random.From(16, 80), b = random.From(16, 80);
    const char* x =
        random.Of({"f32", "bf16", "f16", "f64", "i64", "i32", "u8"});
    const char* z = random.Of({"f32", "bf16", "f64"});
    texts.push_back(absl::StrCat(
        "graph @g()(%x: ", x, "[", a, ", ", b, "], %z: ", z, "[", b, ", ", a,
        "]) -> (%y) {\n  %t = t(%x)\n  %y = add.Tensor(%z, %t)\n}\n"));
  }
  EXPECT_GE(CountOf(ExpectComputed(texts, BestLevel()), "cpu tiles"),
            LeastHits());
}

TEST(CpuMappings, InteriorsOfWindowsAndPads) {
  Numbers random(first_seed + 2);
  std::vector<std::string> texts;
  for (uint64_t k = 0; k < seed_count; ++k) {
    const int h = random.From(8, 40), w = random.From(8, 90);
    const int window = random.From(2, 3), step = random.From(1, 3);
    const char* dtype = random.Of({"f32", "f32", "bf16", "f16", "f64"});
    std::string text =
        absl::StrCat("graph @g()(%x: ", dtype, "[2, 3, ", h, ", ", w, "]) -> ");
    if (k % 3 == 0) {
      absl::StrAppend(&text, "(%y) {\n  %y = constant_pad_nd(%x, [",
                      random.From(1, 4), ", ", random.From(0, 9), ", 1, 0], ",
                      "0.5)\n}\n");
    } else {
      absl::StrAppend(&text, "(%y, %i) {\n  %y, %i = max_pool2d_with_indices(",
                      "%x, [", window, ", ", window, "], [", step, ", ", step,
                      "], [1, 1])\n}\n");
    }
    texts.push_back(std::move(text));
  }
  EXPECT_GE(CountOf(ExpectComputed(texts, BestLevel()), "interior 1"),
            LeastHits());
}

// Rounded, so that many are equal; the logarithm of a negative number is NaN.
TEST(CpuMappings, PlacesOfTheLargestAndTheSmallest) {
  Numbers random(first_seed + 3);
  std::vector<std::string> texts;
  for (uint64_t k = 0; k < seed_count; ++k) {
    const int rows = random.From(1, 40), length = random.From(1, 200);
    const char* dtype = random.Of({"f32", "f32", "bf16", "f64"});
    texts.push_back(absl::StrCat(
        "graph @g()(%x: ", dtype, "[", rows, ", ", length,
        "]) -> (%y) {\n  %r = ", random.Of({"round", "neg", "log", "sign"}),
        "(%x)\n  %y = ", random.Of({"argmax", "argmin"}), "(%r, ",
        random.Of({"0", "1", "1"}), ")\n}\n"));
  }
  EXPECT_GE(CountOf(ExpectComputed(texts, BestLevel()), "argmax"), LeastHits());
}

// Uniform and normal numbers, and those of the next seed, in rows that are no
// multiple of four.
TEST(NumbersOfASeed, AreThoseOfTheReference) {
  std::vector<std::string> texts;
  for (const char* mode : {"rand", "randn"}) {
    texts.push_back(absl::StrCat(
        "graph @g(N in [2, 999] = 67)(%s: i64[], %x: f32[5, N]) -> (%y) {\n"
        "  %a = prims.inductor_random([5, N], %s, \"",
        mode,
        "\")\n  %t = add.Tensor(%s, 1)\n"
        "  %b = prims.inductor_random([5, N], %t, \"",
        mode,
        "\")\n  %d = mul.Tensor(%a, %x)\n  %y = sub.Tensor(%d, %b)\n}\n"));
  }
  ExpectComputed(texts);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) kiln::first_seed = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) kiln::seed_count = std::strtoull(argv[2], nullptr, 10);
  return RUN_ALL_TESTS();
}

// Random graphs through the whole compiler, the host's own compiler and the
// runtime give what the reference interpreter gives of the graph that came in.
// The kernels of all graphs are built together, in few units.
//
//   random_kernels_test --test_arg=FIRST --test_arg=COUNT   other seeds

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

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

void ExpectComputed(const std::vector<std::string>& texts) {
  const Target target = *TargetFromName("x86-64-v3");
  std::vector<Sample> samples;
  std::vector<KernelSource> sources;
  for (const std::string& text : texts) {
    auto sample = Planned(text, target);
    ASSERT_TRUE(sample.ok()) << sample.status() << "\n" << text;
    sources.insert(sources.end(), sample->sources.begin(),
                   sample->sources.end());
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

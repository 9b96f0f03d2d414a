#include "runtime/executor.h"

#include <new>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// y = (x + 1) + 2 for x: f32[N], through the arena.
constexpr char kTwoAdds[] = R"(
  symbols { name: "s0" source { kind: KIND_SIZE input: 0 dim: 0 } min: 0 max: 1000 }
  inputs { tensor { dtype: DTYPE_FLOAT32
    sizes { code { op: SYM_OP_SYMBOL value: 0 } } strides { value: 1 } } }
  buffers { kind: KIND_INPUT index: 0 name: "x"
    bytes { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 4 } code { op: SYM_OP_MUL } } }
  buffers { kind: KIND_ARENA name: "t"
    bytes { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 4 } code { op: SYM_OP_MUL } } }
  buffers { kind: KIND_OUTPUT name: "y"
    bytes { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 4 } code { op: SYM_OP_MUL } } }
  arena_bytes { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 4 } code { op: SYM_OP_MUL } }
  kernels { symbol: "test_add" label: "kiln_poi_fused_add_0" }
  steps { launch { kernel: 0
    args { buffer { buffer: 0 } } args { buffer { buffer: 1 } }
    args { scalar { code { op: SYM_OP_SYMBOL } } } args { scalar { value: 1 } }
    grid { code { op: SYM_OP_SYMBOL } } grid { value: 1 } grid { value: 1 }
    block: 1 block: 1 block: 1 } }
  steps { launch { kernel: 0
    args { buffer { buffer: 1 } } args { buffer { buffer: 2 } }
    args { scalar { code { op: SYM_OP_SYMBOL } } } args { scalar { value: 2 } }
    grid { code { op: SYM_OP_SYMBOL } } grid { value: 1 } grid { value: 1 }
    block: 1 block: 1 block: 1 } }
  outputs { view { buffer: 2 dtype: DTYPE_FLOAT32
    sizes { code { op: SYM_OP_SYMBOL } } strides { value: 1 } } }
)";

std::shared_ptr<const Executor> LoadPlan(
    const std::string& plan, const std::vector<std::string>& constants = {}) {
  auto executor = Load(Seal(MakeTestArtifact(plan, constants)), TestCpu());
  EXPECT_TRUE(executor.ok()) << executor.status();
  return executor.ok() ? *executor : nullptr;
}

std::vector<OutputValue> RunOk(const Executor& executor,
                               const std::vector<InputValue>& inputs,
                               const RunOptions& options = {}) {
  auto outputs = executor.Run(inputs, options);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? *outputs : std::vector<OutputValue>();
}

TEST(Executor, OneArtifactServesEverySize) {
  const auto executor = LoadPlan(kTwoAdds);
  ASSERT_NE(executor, nullptr);
  for (const int64_t n : {3, 100, 0, 1, 1000}) {
    const Tensor x = FloatTensor({n}, std::vector<float>(n, 4.0f));
    const auto outputs = RunOk(*executor, {x});
    ASSERT_EQ(outputs.size(), 1);
    const Tensor& y = std::get<Tensor>(outputs[0]);
    EXPECT_THAT(y.sizes, ElementsAre(n));
    EXPECT_EQ(FloatValues(y), std::vector<float>(n, 7.0f));
  }
}

TEST(Executor, AnOutputOutlivesItsExecutor) {
  auto executor = LoadPlan(kTwoAdds);
  auto outputs = RunOk(*executor, {FloatTensor({2}, {1, 2})});
  executor.reset();
  EXPECT_THAT(FloatValues(std::get<Tensor>(outputs[0])), ElementsAre(4, 5));
}

// Writes down what a run takes, gives back and says of its inputs.
class Ledger : public Allocator, public InputObserver {
 public:
  absl::StatusOr<void*> Allocate(int64_t bytes, Stream) override {
    lines.push_back(absl::StrCat("take ", bytes));
    return ::operator new(static_cast<size_t>(bytes), kAlignment);
  }
  void Free(void* memory, int64_t bytes, Stream) override {
    lines.push_back(absl::StrCat("free ", bytes));
    ::operator delete(memory, kAlignment);
  }
  void Done(int32_t input) override {
    lines.push_back(absl::StrCat("done with ", input));
  }

  std::vector<std::string> lines;

 private:
  static constexpr std::align_val_t kAlignment{64};
};

TEST(Executor, MemoryIsTakenWhenAStepNeedsItAndGivenBackWhenNoneDoes) {
  std::string plan = kTwoAdds;
  const std::string in_arena = R"(KIND_ARENA name: "t"
    bytes { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 4 })";
  const size_t at = plan.find(in_arena);
  ASSERT_NE(at, std::string::npos);
  // Twice as long as it has to be, to know it by its length.
  plan.replace(at, in_arena.size(), R"(KIND_OWN name: "t"
    bytes { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 8 })");
  const size_t arena = plan.find("  arena_bytes");
  plan.erase(arena, plan.find('\n', arena) - arena);
  const auto executor = LoadPlan(plan);
  ASSERT_NE(executor, nullptr);
  Ledger ledger;
  RunOptions options;
  options.allocator = &ledger;
  options.inputs = &ledger;
  {
    const auto outputs =
        RunOk(*executor, {FloatTensor({4}, {1, 2, 3, 4})}, options);
    EXPECT_THAT(FloatValues(std::get<Tensor>(outputs[0])),
                ElementsAre(4, 5, 6, 7));
    EXPECT_THAT(ledger.lines,
                ElementsAre("take 32", "done with 0", "take 16", "free 32"));
  }
  EXPECT_EQ(ledger.lines.back(), "free 16");
}

// Makes results in memory of its own, and writes down which.
class Maker : public ResultMaker {
 public:
  void* Make(int32_t index, const ResultMeta& like) override {
    lines.push_back(absl::StrCat(index, ": ", ShortName(like.dtype), "[",
                                 absl::StrJoin(like.sizes, ","), "] by ",
                                 absl::StrJoin(like.strides, ",")));
    return has_memory ? memory : nullptr;
  }

  bool has_memory = true;
  std::vector<std::string> lines;
  alignas(64) float memory[64] = {};
};

TEST(Executor, AResultIsWrittenWhereItsMakerSays) {
  const auto executor = LoadPlan(kTwoAdds);
  Maker maker;
  RunOptions options;
  options.results = &maker;
  const auto outputs = RunOk(*executor, {FloatTensor({3}, {1, 2, 3})}, options);
  const Tensor& y = std::get<Tensor>(outputs[0]);
  EXPECT_EQ(y.data, maker.memory);
  EXPECT_EQ(y.owner, nullptr);
  EXPECT_THAT(FloatValues(y), ElementsAre(4, 5, 6));
  EXPECT_THAT(maker.lines, ElementsAre("0: f32[3] by 1"));
}

TEST(Executor, AResultThatItsMakerDoesNotMakeIsAllocated) {
  const auto executor = LoadPlan(kTwoAdds);
  Maker maker;
  maker.has_memory = false;
  RunOptions options;
  options.results = &maker;
  const auto outputs = RunOk(*executor, {FloatTensor({3}, {1, 2, 3})}, options);
  EXPECT_THAT(FloatValues(std::get<Tensor>(outputs[0])), ElementsAre(4, 5, 6));
  RunOk(*executor, {FloatTensor({0}, {})}, options);  // nobody is asked
  EXPECT_EQ(maker.lines.size(), 1);
}

// Runs a plan of one float result more, or one that lies in more memory.
void ExpectNobodyIsAskedToMake(const std::string& plan) {
  const auto executor = LoadPlan(plan);
  ASSERT_NE(executor, nullptr);
  Maker maker;
  RunOptions options;
  options.results = &maker;
  const auto outputs = RunOk(*executor, {FloatTensor({3}, {1, 2, 3})}, options);
  EXPECT_THAT(FloatValues(std::get<Tensor>(outputs[0])), ElementsAre(4, 5, 6));
  EXPECT_THAT(maker.lines, testing::IsEmpty());
}

TEST(Executor, ResultsThatShareMemoryAreAllocated) {
  ExpectNobodyIsAskedToMake(
      absl::StrCat(kTwoAdds, R"(outputs { view { buffer: 2 dtype: DTYPE_FLOAT32
        sizes { value: 1 } strides { value: 1 } offset { value: 1 } } })"));
}

TEST(Executor, AResultWithPaddingIsAllocated) {
  std::string plan = kTwoAdds;
  const std::string length = "value: 4";
  const size_t at = plan.find(length, plan.find("KIND_OUTPUT"));
  ASSERT_NE(at, std::string::npos);
  ExpectNobodyIsAskedToMake(plan.replace(at, length.size(), "value: 8"));
}

TEST(Executor, ThreadsRunAtOnceWithoutMixingTheirMemory) {
  const auto executor = LoadPlan(kTwoAdds);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int run = 0; run < 50; ++run) {
        const int64_t n = 1 + (run * 37 + t) % 500;
        const Tensor x = FloatTensor({n}, std::vector<float>(n, t));
        auto outputs = executor->Run({{x}}, {});
        if (!outputs.ok() || FloatValues(std::get<Tensor>((*outputs)[0])) !=
                                 std::vector<float>(n, t + 3.0f)) {
          ++wrong[t];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

TEST(Executor, InputsThatAreNotWhatWasCompiledForAreRefused) {
  const auto executor = LoadPlan(kTwoAdds);
  const Tensor good = FloatTensor({4}, {1, 2, 3, 4});
  Tensor wide = good;
  wide.dtype = DType::kFloat64;
  Tensor strided = good;
  strided.sizes = {2};
  strided.strides = {2};
  Tensor crooked = good;
  crooked.data = static_cast<char*>(crooked.data) + 1;
  Tensor elsewhere = good;
  elsewhere.device = DeviceKind::kCuda;
  const std::vector<std::pair<std::vector<InputValue>, std::string>> cases = {
      {{}, "inputs: found 0, expected 1"},
      {{int64_t{3}}, "found an integer, expected a tensor"},
      {{FloatTensor({2, 2}, {1, 2, 3, 4})}, "rank 2"},
      {{wide}, "found f64, expected f32"},
      {{strided}, "stride 0: found 2, expected 1"},
      {{crooked}, "not a multiple of 4 bytes"},
      {{elsewhere}, "another device"},
      {{FloatTensor({1001}, std::vector<float>(1001))}, "symbol s0: found 1001, expected "},
  };
  for (const auto& [inputs, message] : cases) {
    const auto outputs = executor->Run(inputs, {});
    EXPECT_EQ(ReasonOf(outputs.status()), ErrorReason::kGuardFailed);
    EXPECT_THAT(outputs.status().message(), HasSubstr(message));
  }
  RunOk(*executor, {good});  // the executor is none the worse
}

TEST(Executor, OutputsMayAliasInputsOrBeIntegersOrNothing) {
  const auto executor = LoadPlan(R"(
    symbols { name: "s0" source { kind: KIND_SCALAR input: 1 } }
    inputs { tensor { dtype: DTYPE_FLOAT32
      sizes { value: 2 } sizes { value: 3 } strides { value: 3 } strides { value: 1 } } }
    inputs { scalar { code { op: SYM_OP_SYMBOL } } }
    buffers { kind: KIND_INPUT index: 0 name: "x" }
    buffers { kind: KIND_CONSTANT index: 0 name: "c" bytes { value: 8 } }
    outputs { view { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 3 } sizes { value: 2 }
      strides { value: 1 } strides { value: 3 } } }
    outputs { sym { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 5 } code { op: SYM_OP_ADD } } }
    outputs { none {} }
    outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 1 } } }
  )",
                                 {std::string("\0\0\x80\x3f\0\0\0\x40", 8)});
  const Tensor x = FloatTensor({2, 3}, {0, 1, 2, 3, 4, 5});
  const auto outputs = RunOk(*executor, {x, int64_t{37}});
  ASSERT_EQ(outputs.size(), 4);
  const Tensor& transposed = std::get<Tensor>(outputs[0]);
  EXPECT_EQ(transposed.storage, x.storage);
  EXPECT_EQ(transposed.owner, x.owner);
  EXPECT_THAT(FloatValues(transposed), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(std::get<int64_t>(outputs[1]), 42);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(outputs[2]));
  EXPECT_THAT(FloatValues(std::get<Tensor>(outputs[3])), ElementsAre(1, 2));
}

TEST(Executor, CopiesAndFillsWriteWhereTheyAreTold) {
  const auto executor = LoadPlan(R"(
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } } mutated: true }
    buffers { kind: KIND_INPUT index: 0 name: "x" }
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } }
    steps { copy {
      from { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
        strides { value: 2 } strides { value: 1 } }
      to { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
        strides { value: 1 } strides { value: 2 } } } }
    steps { fill { bits: 0x40400000
      to { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 1 } offset { value: 2 } } } }
    outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
  )");
  const Tensor x = FloatTensor({2, 2}, {1, 2, 5, 6});
  const auto outputs = RunOk(*executor, {x});
  EXPECT_THAT(FloatValues(std::get<Tensor>(outputs[0])),
              ElementsAre(1, 5, 2, 6));
  EXPECT_THAT(FloatValues(x), ElementsAre(1, 2, 3, 3));
}

// s1 = 2 * s0 is bound by a step; y: f32[s1] is known only then.
constexpr char kBound[] = R"(
  symbols { name: "s0" source { kind: KIND_SCALAR input: 0 } }
  symbols { name: "s1" source { kind: KIND_STEP } }
  inputs { scalar { code { op: SYM_OP_SYMBOL } } }
  buffers { kind: KIND_OUTPUT name: "y"
    bytes { code { op: SYM_OP_SYMBOL value: 1 } code { op: SYM_OP_CONSTANT value: 4 } code { op: SYM_OP_MUL } } }
  steps { assertion { message: "at least one row"
    condition { code { op: SYM_OP_CONSTANT value: 0 } code { op: SYM_OP_SYMBOL } code { op: SYM_OP_LT } } } }
  steps { bind_symbol { symbol: 1
    value { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 2 } code { op: SYM_OP_MUL } } } }
  steps { fill { bits: 0x3f800000
    to { buffer: 0 dtype: DTYPE_FLOAT32 sizes { code { op: SYM_OP_SYMBOL value: 1 } } strides { value: 1 } } } }
  outputs { view { buffer: 0 dtype: DTYPE_FLOAT32
    sizes { code { op: SYM_OP_SYMBOL value: 1 } } strides { value: 1 } } }
)";

TEST(Executor, AStepMayBindASymbolThatLaterMemoryNeeds) {
  const auto executor = LoadPlan(kBound);
  const auto outputs = RunOk(*executor, {int64_t{2}});
  EXPECT_THAT(FloatValues(std::get<Tensor>(outputs[0])),
              ElementsAre(1, 1, 1, 1));
}

TEST(Executor, AnAssertionThatFailsSpeaksItsOwnWords) {
  const auto executor = LoadPlan(kBound);
  const auto outputs = executor->Run({{int64_t{0}}}, {});
  EXPECT_EQ(ReasonOf(outputs.status()), ErrorReason::kGuardFailed);
  EXPECT_THAT(outputs.status().message(), HasSubstr("at least one row"));
}

// The kernel is named, and nothing after it runs; the next call is as the first.
TEST(Executor, AnIndexOutOfBoundsEndsItsCallAlone) {
  const auto executor = LoadPlan(R"(
    symbols { name: "i" source { kind: KIND_SCALAR input: 0 } }
    inputs { scalar { code { op: SYM_OP_SYMBOL } } }
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } }
    kernels { symbol: "test_count" label: "kiln_poi_fused_scatter_0" }
    steps { fill { to { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } } }
    steps { launch { kernel: 0 args { buffer { buffer: 0 } } args { scalar { code { op: SYM_OP_SYMBOL } } }
      grid { value: 1 } grid { value: 1 } grid { value: 1 } block: 1 block: 1 block: 1 } }
    outputs { view { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
  )");
  for (int calls = 0; calls < 2; ++calls) {
    const auto outputs = RunOk(*executor, {int64_t{3}});
    EXPECT_THAT(FloatValues(std::get<Tensor>(outputs[0])),
                ElementsAre(0, 0, 0, 1));
    const auto refused = executor->Run({{int64_t{7}}}, {});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(refused.status().message(),
              "kiln_poi_fused_scatter_0: index out of bounds: index 7 of a "
              "dimension of size 4");
  }
}

TEST(Executor, KernelsGetTheSeedOfTheRun) {
  const auto executor = LoadPlan(R"(
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 8 } }
    kernels { symbol: "test_seed" label: "seed_0" }
    steps { launch { kernel: 0 args { buffer { buffer: 0 } } args { seed {} }
      grid { value: 1 } grid { value: 1 } grid { value: 1 } block: 1 block: 1 block: 1 } }
    outputs { view { buffer: 0 dtype: DTYPE_INT64 } }
  )");
  for (const uint64_t seed : {uint64_t{7}, ~uint64_t{0}}) {
    const auto outputs = RunOk(*executor, {}, {.seed = seed});
    const Tensor& y = std::get<Tensor>(outputs[0]);
    EXPECT_EQ(*static_cast<const uint64_t*>(y.data), seed);
  }
  uint64_t slot = 99;
  const auto outputs = RunOk(*executor, {}, {.seed = 7, .seed_slot = &slot});
  const Tensor& y = std::get<Tensor>(outputs[0]);
  EXPECT_EQ(*static_cast<const uint64_t*>(y.data), 99);
}

TEST(Executor, ASeedSlotHoldsTheSeedOfTheRunOrIsTheCallers) {
  const auto executor = LoadPlan(R"(
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 8 } }
    kernels { symbol: "test_seed_slot" label: "seed_0" }
    steps { launch { kernel: 0 args { buffer { buffer: 0 } } args { seed_slot {} }
      grid { value: 1 } grid { value: 1 } grid { value: 1 } block: 1 block: 1 block: 1 } }
    outputs { view { buffer: 0 dtype: DTYPE_INT64 } }
  )");
  uint64_t own = 99;
  const auto drawn = [&](const RunOptions& options) {
    const auto outputs = RunOk(*executor, {}, options);
    return *static_cast<const uint64_t*>(std::get<Tensor>(outputs[0]).data);
  };
  EXPECT_EQ(drawn({.seed = 7}), 7);
  EXPECT_EQ(drawn({.seed = ~uint64_t{0} - 1}), ~uint64_t{0} - 1);
  EXPECT_EQ(drawn({.seed = 7, .seed_slot = &own}), 99);
  EXPECT_EQ(own, 99);
}

// Hands out memory and counts what is out.
class CountingAllocator final : public Allocator {
 public:
  absl::StatusOr<void*> Allocate(int64_t bytes, Stream) override {
    ++made;
    ++out;
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  void Free(void* memory, int64_t, Stream) override {
    --out;
    std::free(memory);
  }
  int made = 0;
  int out = 0;
};

// The arena goes back at once, the output when it dies; calls with and without
// a lender take turns on one frame.
TEST(Executor, OutputsAndArenaComeFromTheAllocatorThatTheCallerLends) {
  const auto executor = LoadPlan(kTwoAdds);
  for (int calls = 1; calls <= 2; ++calls) {
    CountingAllocator lent;
    auto outputs = RunOk(*executor, {FloatTensor({4}, {1, 2, 3, 4})},
                         {.allocator = &lent});
    EXPECT_EQ(lent.made, 2);
    EXPECT_EQ(lent.out, 1);
    outputs.clear();
    EXPECT_EQ(lent.out, 0);
    outputs = RunOk(*executor, {FloatTensor({4}, {1, 2, 3, 4})}, {});
    EXPECT_EQ(lent.made, 2);
  }
}

TEST(Executor, ATracedRunNamesItsKernels) {
  const auto executor = LoadPlan(kTwoAdds);
  Trace trace;
  RunOk(*executor, {FloatTensor({4}, {1, 2, 3, 4})}, {.trace = &trace});
  const auto events = trace.events();
  ASSERT_EQ(events.size(), 3);
  EXPECT_EQ(events[0].name, "kiln_poi_fused_add_0");
  EXPECT_EQ(events[2].name, "run");
  EXPECT_GE(events[2].duration_ns, events[0].duration_ns);
  EXPECT_THAT(trace.ToJson(), HasSubstr("\"name\":\"kiln_poi_fused_add_0\""));
}

TEST(Executor, AnArtifactLoadedTwiceIsTwoThatWork) {
  const auto first = LoadPlan(kTwoAdds);
  const auto second = LoadPlan(kTwoAdds);
  for (const auto& executor : {first, second}) {
    const auto outputs = RunOk(*executor, {FloatTensor({1}, {1})});
    EXPECT_THAT(FloatValues(std::get<Tensor>(outputs[0])), ElementsAre(4));
  }
}

// out = x @ w, N unknown at load.
TEST(Executor, AnExternCallServesEveryShape) {
  const auto executor = LoadPlan(R"(
    symbols { name: "s0" source { kind: KIND_SIZE input: 0 dim: 0 } }
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { code { op: SYM_OP_SYMBOL } } sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } } }
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 1 }
      strides { value: 1 } strides { value: 1 } } }
    buffers { kind: KIND_INPUT index: 0 name: "x" }
    buffers { kind: KIND_INPUT index: 1 name: "w" }
    buffers { kind: KIND_OUTPUT name: "y"
      bytes { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 4 } code { op: SYM_OP_MUL } } }
    steps { extern_call { name: "mm"
      inputs { buffer: 0 dtype: DTYPE_FLOAT32 sizes { code { op: SYM_OP_SYMBOL } } sizes { value: 2 }
        strides { value: 2 } strides { value: 1 } }
      inputs { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 1 }
        strides { value: 1 } strides { value: 1 } }
      outputs { buffer: 2 dtype: DTYPE_FLOAT32 sizes { code { op: SYM_OP_SYMBOL } } sizes { value: 1 }
        strides { value: 1 } strides { value: 1 } } } }
    outputs { view { buffer: 2 dtype: DTYPE_FLOAT32 sizes { code { op: SYM_OP_SYMBOL } } strides { value: 1 } } }
  )");
  EXPECT_TRUE(executor->LibraryCalls().empty());
  const Tensor w = FloatTensor({2, 1}, {10, 1});
  for (int64_t n = 1; n <= 40; ++n) {
    const Tensor x = FloatTensor({n, 2}, std::vector<float>(2 * n, n));
    const auto outputs = RunOk(*executor, {x, w});
    EXPECT_EQ(FloatValues(std::get<Tensor>(outputs[0])),
              std::vector<float>(n, 11.0f * n));
    if (n == 1) {
      EXPECT_THAT(
          executor->LibraryCalls(),
          ElementsAre(StartsWith("mm: matmul f32 1 x [1, 2] @ [2, 1]: ")));
    }
  }
  EXPECT_EQ(executor->LibraryCalls().size(), 16);  // that are kept
}

}  // namespace
}  // namespace kiln

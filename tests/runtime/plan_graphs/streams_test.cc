// What graphs put on which stream, and in which order.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/plan_graphs/plan_graphs_rig.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::ElementsAre;

// Of a program; the device does not look at them.
const Stream kFirst = reinterpret_cast<Stream>(1);
const Stream kSecond = reinterpret_cast<Stream>(2);

class Streams : public PlanGraphsTest {
 protected:
  Streams() : PlanGraphsTest(GraphOptions()) {}

  // What a call of a step of its own puts on streams.
  std::vector<std::string> LogOf(int plan, const Tensor& x, Stream stream) {
    graphs_->BeginStep();
    device_->TakeLog();
    Call(plan, {x}, {.stream = stream});
    return device_->TakeLog();
  }
};

TEST_F(Streams, AReplayWaitsForTheLastCallOnAnotherStream) {
  const int f = Add(CopyPlan());
  const int g = Add(TwoResultsPlan());
  for (int i = 0; i < 2; ++i) {
    Begin(f, {Vector(1)}, {.stream = kFirst});
    Begin(g, {Vector(1)}, {.stream = kFirst});
  }
  const Tensor x = Vector(1);
  EXPECT_THAT(LogOf(f, x, kFirst),
              ElementsAre("copies 16 on 1", "graph on 1", "record on 1"));
  EXPECT_THAT(LogOf(g, x, kSecond), ElementsAre("wait on 2", "copies 16 on 2",
                                                "graph on 2", "record on 2"));
  EXPECT_THAT(LogOf(f, x, kSecond),
              ElementsAre("copies 16 on 2", "graph on 2", "record on 2"));
  EXPECT_THAT(LogOf(f, x, kFirst), ElementsAre("wait on 1", "copies 16 on 1",
                                               "graph on 1", "record on 1"));
}

// Which no program can destroy.
TEST_F(Streams, TheDefaultStreamIsMarkedWhenAnotherComes) {
  const int f = Add(CopyPlan());
  for (int i = 0; i < 3; ++i) Begin(f, {Vector(1)});
  const Tensor x = Vector(1);
  EXPECT_THAT(LogOf(f, x, nullptr),
              ElementsAre("copies 16 on 0", "graph on 0"));
  EXPECT_THAT(LogOf(f, x, kFirst),
              ElementsAre("record on 0", "wait on 1", "copies 16 on 1",
                          "graph on 1", "record on 1"));
  EXPECT_THAT(LogOf(f, x, nullptr),
              ElementsAre("wait on 0", "copies 16 on 0", "graph on 0"));
  graphs_.reset();
  EXPECT_THAT(device_->TakeLog(),
              ElementsAre("record on 0", "wait on own", "synchronize own"));
}

TEST_F(Streams, AWarmUpAndARecordingRunBetweenWhatTheCallerPuts) {
  const int f = Add(CopyPlan());
  const Tensor x = Vector(1);
  EXPECT_THAT(LogOf(f, x, kFirst),
              ElementsAre("wait on 1", "record on 1", "wait on own",
                          "copy 4 on own", "copy 4 on own", "record on own",
                          "wait on 1", "record on 1"));
  EXPECT_THAT(
      LogOf(f, x, kSecond),
      ElementsAre("wait on 2", "record on 2", "wait on own", "copies 16 on own",
                  "record on own", "wait on 2", "graph on 2", "record on 2"));
}

// The program may have destroyed the streams of its calls by then.
TEST_F(Streams, TheEndWaitsForTheLastLaunchOnAStreamOfItsOwn) {
  const int f = Add(CopyPlan());
  for (int i = 0; i < 3; ++i) Begin(f, {Vector(1)}, {.stream = kFirst});
  Begin(f, {Vector(1)}, {.stream = kSecond});
  device_->TakeLog();
  graphs_.reset();
  EXPECT_THAT(device_->TakeLog(),
              ElementsAre("wait on own", "synchronize own"));
}

TEST_F(Streams, AnInputThatRepeatsItselfIsCopiedOnce) {
  const int f = Add(R"(
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 4 }
      strides { value: 0 } strides { value: 1 } } }
    buffers { kind: KIND_INPUT index: 0 name: "x" bytes { value: 16 } }
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 32 } }
    steps { copy {
      from { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 4 }
        strides { value: 0 } strides { value: 1 } }
      to { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 4 }
        strides { value: 4 } strides { value: 1 } } } }
    outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 8 } strides { value: 1 } } })");
  for (int i = 0; i < 4; ++i) {
    Tensor x = Vector(static_cast<float>(i));
    x.sizes = {2, 4};
    x.strides = {0, 1};
    device_->TakeLog();
    const auto y = Begin(f, {x}, {.stream = kFirst});
    EXPECT_THAT(FloatValues(y[0]),
                ElementsAre(i, i + 1, i + 2, i + 3, i, i + 1, i + 2, i + 3));
    if (i < 2) continue;
    EXPECT_THAT(device_->TakeLog(),
                ElementsAre("copies 16 on 1", "graph on 1", "record on 1"));
  }
}

// y is the last of four inputs, and z the third, whose elements are not side by side.
TEST_F(Streams, InputsAreCopiedAtOnceWithWhatLiesBetweenTheirElements) {
  const int f = Add(R"(
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 1 } strides { value: 1 } } }
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 2 } } }
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 1 } strides { value: 2 } } }
    buffers { kind: KIND_INPUT index: 0 name: "x" bytes { value: 16 } }
    buffers { kind: KIND_INPUT index: 1 name: "a" bytes { value: 4 } }
    buffers { kind: KIND_INPUT index: 2 name: "b" bytes { value: 12 } }
    buffers { kind: KIND_INPUT index: 3 name: "c" bytes { value: 16 } }
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } }
    buffers { kind: KIND_OUTPUT name: "z" bytes { value: 8 } }
    steps { copy {
      from { buffer: 3 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } }
      to { buffer: 4 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } } }
    steps { copy {
      from { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 2 } }
      to { buffer: 5 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 1 } } } }
    outputs { view { buffer: 4 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
    outputs { view { buffer: 5 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 1 } } })");
  for (int i = 0; i < 4; ++i) {
    const auto first = static_cast<float>(i);
    Tensor a = Vector(1), b = Vector(first + 20), c = Vector(first);
    a.sizes = {1};
    b.sizes = {2};
    b.strides = {2};
    c.sizes = {2, 2};  // a transpose
    c.strides = {1, 2};
    device_->TakeLog();
    const auto y = Begin(f, {Vector(9), a, b, c}, {.stream = kFirst});
    EXPECT_THAT(FloatValues(y[0]), ElementsAre(i, i + 1, i + 2, i + 3));
    EXPECT_THAT(FloatValues(y[1]), ElementsAre(i + 20, i + 22));
    if (i < 2) continue;
    EXPECT_THAT(device_->TakeLog(), ElementsAre("copies 16+4+12+16 on 1",
                                                "graph on 1", "record on 1"));
  }
}

// y = x, whose two elements lie more than a mebibyte apart.
TEST_F(Streams, AnInputWithTooMuchBetweenItsElementsIsCopiedForItself) {
  const int f = Add(R"(
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 262146 } } }
    buffers { kind: KIND_INPUT index: 0 name: "x" bytes { value: 1048588 } }
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 8 } }
    steps { copy {
      from { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 262146 } }
      to { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 1 } } } }
    outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 1 } } })");
  for (int i = 0; i < 4; ++i) {
    Tensor x = Vector(static_cast<float>(i), 262147);
    x.sizes = {2};
    x.strides = {262146};
    device_->TakeLog();
    const auto y = Begin(f, {x}, {.stream = kFirst});
    EXPECT_THAT(FloatValues(y[0]), ElementsAre(i, i + 262146));
    if (i < 2) continue;
    EXPECT_THAT(device_->TakeLog(),
                ElementsAre("copy 2 on 1", "graph on 1", "record on 1"));
  }
}

TEST_F(Streams, AReplayWritesTheSeedOfItsCall) {
  const int f = Add(R"(
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 8 } }
    kernels { symbol: "test_seed_slot" label: "seed_0" }
    steps { launch { kernel: 0 args { buffer { buffer: 0 } } args { seed_slot {} }
      grid { value: 1 } grid { value: 1 } grid { value: 1 } block: 1 block: 1 block: 1 } }
    outputs { view { buffer: 0 dtype: DTYPE_INT64 } })");
  for (uint64_t seed = 40; seed < 44; ++seed) {
    device_->TakeLog();
    Begin(f, {}, {.seed = seed, .stream = kFirst});
    if (seed < 42) continue;
    EXPECT_THAT(device_->TakeLog(),
                ElementsAre(absl::StrCat("fill ", seed, " on 1"), "graph on 1",
                            "record on 1"));
  }
}

}  // namespace
}  // namespace kiln

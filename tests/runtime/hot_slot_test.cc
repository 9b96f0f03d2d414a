#include "runtime/hot_slot.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

// y = x + term for x: f32[64].
std::shared_ptr<const Executor> Adds(int term, const OpenedDevice& device) {
  auto executor = Load(Seal(MakeTestArtifact(absl::StrCat(R"(
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 64 } strides { value: 1 } } }
    buffers { kind: KIND_INPUT index: 0 name: "x" }
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 256 } }
    kernels { symbol: "test_add" label: "add_0" }
    steps { launch { kernel: 0 args { buffer { buffer: 0 } } args { buffer { buffer: 1 } }
      args { scalar { value: 64 } } args { scalar { value: )",
                                                          term, R"( } }
      grid { value: 1 } grid { value: 1 } grid { value: 1 } block: 1 block: 1 block: 1 } }
    outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 64 } strides { value: 1 } } }
  )"))),
                       device);
  EXPECT_TRUE(executor.ok()) << executor.status();
  return executor.ok() ? *executor : nullptr;
}

TEST(HotSlot, IsEmptyUntilSomethingIsPublished) {
  HotSlot slot;
  EXPECT_EQ(slot.Acquire(), nullptr);
  const auto first = Adds(1, TestCpu());
  EXPECT_EQ(slot.Publish(first), nullptr);
  EXPECT_EQ(slot.Acquire(), first);
  EXPECT_EQ(slot.Publish(nullptr), first);
}

TEST(HotSlot, SwapsWhileCallsRunAndEveryCallSeesOneWholeArtifact) {
  const OpenedDevice device = TestCpu();
  HotSlot slot;
  ASSERT_EQ(slot.Publish(Adds(1, device)), nullptr);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<int> calls{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      const Tensor x = FloatTensor({64}, std::vector<float>(64, 10.0f));
      while (!stop.load()) {
        const auto outputs = slot.Acquire()->Run({{x}}, {});
        if (!outputs.ok()) {
          ++wrong;
          continue;
        }
        const auto y = FloatValues(std::get<Tensor>((*outputs)[0]));
        if (y != std::vector<float>(64, y[0]) || y[0] < 11 || y[0] > 12) {
          ++wrong;
        }
        ++calls;
      }
    });
  }
  for (int swap = 0; swap < 40; ++swap) {
    const int before = calls.load();
    // What served until now is dropped here, once its last call is over.
    std::shared_ptr<const Executor> old =
        slot.Publish(Adds(1 + swap % 2, device));
    EXPECT_NE(old, nullptr);
    old.reset();
    while (calls.load() == before) std::this_thread::yield();
  }
  stop.store(true);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace kiln

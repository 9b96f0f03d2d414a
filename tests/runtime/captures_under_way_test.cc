#include "runtime/captures_under_way.h"

#include <atomic>
#include <optional>
#include <thread>

#include "gtest/gtest.h"

namespace kiln {
namespace {

bool IsOutside() {
  return DoOutsideCaptures([] {});
}

TEST(CapturesUnderWay, WorkIsDoneWhereAllCapturesHaveEnded) {
  EXPECT_TRUE(IsOutside());
  std::optional<CaptureUnderWay> outer(std::in_place);
  std::optional<CaptureUnderWay> inner(std::in_place);
  EXPECT_FALSE(IsOutside());
  outer.reset();
  EXPECT_FALSE(IsOutside());
  std::thread([&] {
    EXPECT_FALSE(IsOutside());
    inner.reset();
  }).join();
  EXPECT_TRUE(IsOutside());
}

TEST(CapturesUnderWay, ACaptureBeginsWhenTheWorkHasEnded) {
  std::atomic<bool> is_asked = false;
  std::atomic<bool> has_ended = false;
  std::thread captures;
  EXPECT_TRUE(DoOutsideCaptures([&] {
    captures = std::thread([&] {
      is_asked = true;
      const CaptureUnderWay capture;
      EXPECT_TRUE(has_ended);
    });
    while (!is_asked) std::this_thread::yield();
    has_ended = true;
  }));
  captures.join();
}

}  // namespace
}  // namespace kiln

#ifndef KILN_TESTS_RUNTIME_DEVICE_SUITE_H_
#define KILN_TESTS_RUNTIME_DEVICE_SUITE_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "runtime/device.h"

// Every Device promises what runtime/device.h says. A new backend adds one
// INSTANTIATE line and inherits every test; a factory gives null where there is
// no such device.

namespace kiln {

using DeviceFactory = std::shared_ptr<Device> (*)();

class DeviceConformance : public testing::TestWithParam<DeviceFactory> {
 protected:
  void SetUp() override {
    device_ = GetParam()();
    if (device_ == nullptr) GTEST_SKIP() << "no such device here";
  }

  void* Allocated(int64_t bytes) {
    const auto memory = device_->allocator().Allocate(bytes, nullptr);
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory.ok() ? *memory : nullptr;
  }

  template <typename T>
  void* Uploaded(const std::vector<T>& values) {
    const int64_t bytes = sizeof(T) * values.size();
    void* const memory = Allocated(bytes);
    EXPECT_TRUE(device_->Upload(values.data(), memory, bytes, nullptr).ok());
    return memory;
  }

  template <typename T>
  std::vector<T> Downloaded(const void* memory, size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(
        device_->Download(memory, values.data(), count * sizeof(T), nullptr)
            .ok());
    return values;
  }

  void Free(void* memory, int64_t bytes) {
    device_->allocator().Free(memory, bytes, nullptr);
  }

  std::shared_ptr<Device> device_;
};

TEST_P(DeviceConformance, MemoryIsAlignedAndHoldsWhatWasUploaded) {
  for (const int64_t bytes : {1, 63, 64, 1000, 1 << 20}) {
    std::vector<char> values(bytes);
    for (int64_t i = 0; i < bytes; ++i) values[i] = static_cast<char>(i * 7);
    void* const memory = Uploaded(values);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0);
    EXPECT_EQ(Downloaded<char>(memory, bytes), values);
    Free(memory, bytes);
  }
}

TEST_P(DeviceConformance, FreedMemoryMayBeHadAgain) {
  for (int i = 0; i < 200; ++i) {
    void* const memory = Allocated(100 * i + 1);
    ASSERT_NE(memory, nullptr);
    Free(memory, 100 * i + 1);
  }
}

TEST_P(DeviceConformance, FillsElementsOfEverySize) {
  const uint64_t bits = 0x0123456789abcdef;
  for (const int64_t element : {1, 2, 4, 8}) {
    for (const int64_t count : {1, 3, 100000}) {
      // One element more than is filled, to see that it stays.
      std::vector<char> before((count + 1) * element, 0x55);
      void* const memory = Uploaded(before);
      ASSERT_TRUE(device_->Fill(memory, element, count, bits, nullptr).ok());
      const auto after = Downloaded<char>(memory, before.size());
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(std::memcmp(&after[i * element], &bits, element), 0)
            << element << " bytes at " << i;
      }
      EXPECT_EQ(after.back(), 0x55);
      Free(memory, before.size());
    }
  }
}

TEST_P(DeviceConformance, CopiesBetweenStridedWindows) {
  // [2, 3, 4] from row-major into its transpose of the two last dimensions.
  const std::vector<int64_t> sizes = {2, 3, 4};
  const std::vector<int64_t> from_strides = {12, 4, 1};
  const std::vector<int64_t> to_strides = {12, 1, 3};
  const auto check = [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values(24);
    for (int i = 0; i < 24; ++i) values[i] = static_cast<T>(i + 1);
    void* const from = Uploaded(values);
    void* const to = Uploaded(std::vector<T>(24));
    ASSERT_TRUE(device_
                    ->Copy({from, sizeof(T), sizes, from_strides},
                           {to, sizeof(T), sizes, to_strides}, nullptr)
                    .ok());
    const auto copied = Downloaded<T>(to, 24);
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 3; ++j) {
        for (int k = 0; k < 4; ++k) {
          ASSERT_EQ(copied[12 * i + j + 3 * k], values[12 * i + 4 * j + k]);
        }
      }
    }
    Free(from, 24 * sizeof(T));
    Free(to, 24 * sizeof(T));
  };
  check(uint8_t{});
  check(uint16_t{});
  check(uint32_t{});
  check(uint64_t{});
}

TEST_P(DeviceConformance, ACopyMayRepeatARowOrBeDenseOrAScalar) {
  void* const row = Uploaded(std::vector<float>{1, 2, 3});
  void* const to = Uploaded(std::vector<float>(6));
  const std::vector<int64_t> sizes = {2, 3};
  const std::vector<int64_t> repeat = {0, 1};
  const std::vector<int64_t> dense = {3, 1};
  ASSERT_TRUE(
      device_->Copy({row, 4, sizes, repeat}, {to, 4, sizes, dense}, nullptr)
          .ok());
  EXPECT_EQ(Downloaded<float>(to, 6), (std::vector<float>{1, 2, 3, 1, 2, 3}));
  void* const again = Uploaded(std::vector<float>(6));
  ASSERT_TRUE(
      device_->Copy({to, 4, sizes, dense}, {again, 4, sizes, dense}, nullptr)
          .ok());
  EXPECT_EQ(Downloaded<float>(again, 6), Downloaded<float>(to, 6));
  ASSERT_TRUE(
      device_->Copy({row, 4, {}, {}}, {again, 4, {}, {}}, nullptr).ok());
  EXPECT_EQ(Downloaded<float>(again, 1), (std::vector<float>{1}));
  Free(row, 12);
  Free(to, 24);
  Free(again, 24);
}

// Runs of all alignments and of many sizes, more than one launch takes.
TEST_P(DeviceConformance, CopiesManyRunsAtOnce) {
  for (const int runs : {1, 2, 8, 9, 127, 300}) {
    constexpr int64_t kEach = 40000;
    std::vector<char> values(runs * kEach);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<char>(i * 31 + i / 256);
    }
    const std::vector<char> nothing(values.size(), 0x55);
    void* const from = Uploaded(values);
    void* const to = Uploaded(nothing);
    std::vector<char> due = nothing;
    std::vector<DenseCopy> copies;
    for (int i = 0; i < runs; ++i) {
      const int64_t at = i * kEach;
      // Pieces of the kernel are 16 KiB.
      const int64_t sizes[] = {0, 1, 16, 4099, 16384, 16400, 39000};
      const int64_t bytes = sizes[(i + 6) % 7];
      const int64_t shift = i % 3 == 0 ? 0 : i % 3 == 1 ? 4 : i % 16;
      copies.push_back({static_cast<char*>(from) + at + shift,
                        static_cast<char*>(to) + at + (i % 5 == 4 ? 2 : shift),
                        bytes});
      std::copy_n(&values[at + shift], bytes,
                  &due[at + (i % 5 == 4 ? 2 : shift)]);
    }
    ASSERT_TRUE(device_->CopyAll(copies, nullptr).ok());
    EXPECT_EQ(Downloaded<char>(to, values.size()), due) << runs << " runs";
    Free(from, values.size());
    Free(to, values.size());
  }
  EXPECT_TRUE(device_->CopyAll({}, nullptr).ok());
}

TEST_P(DeviceConformance, MarkersOrderStreamsAndMayBeUnrecorded) {
  auto marker = device_->MakeMarker();
  ASSERT_TRUE(marker.ok()) << marker.status();
  EXPECT_TRUE((*marker)->Wait(nullptr).ok());
  EXPECT_TRUE((*marker)->Record(nullptr).ok());
  EXPECT_TRUE((*marker)->Wait(nullptr).ok());
  EXPECT_TRUE(device_->Synchronize(nullptr).ok());
}

// Captures; the CPU has none, and says so.
class CaptureConformance : public DeviceConformance {
 protected:
  void SetUp() override {
    DeviceConformance::SetUp();
    if (IsSkipped()) return;
    auto stream = device_->MakeStream();
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
    if (device_->traits().kind != DeviceKind::kCpu) return;
    EXPECT_EQ(device_->BeginCapture(stream_->get()).code(),
              absl::StatusCode::kUnimplemented);
    EXPECT_FALSE(device_->EndCapture(stream_->get()).ok());
    GTEST_SKIP() << "a device that captures nothing";
  }

  // Of one element of 4 bytes.
  absl::Status Copy(void* from, void* to, Stream stream) {
    return device_->Copy({from, 4, {}, {}}, {to, 4, {}, {}}, stream);
  }

  std::unique_ptr<OwnedStream> stream_;
};

TEST_P(CaptureConformance, WhatIsCapturedRunsWhenTheGraphDoes) {
  void* const from = Uploaded(std::vector<int32_t>{1});
  void* const to = Uploaded(std::vector<int32_t>{0});
  const Stream stream = stream_->get();
  EXPECT_FALSE(device_->IsCaptured(stream));
  ASSERT_TRUE(device_->BeginCapture(stream).ok());
  EXPECT_TRUE(device_->IsCaptured(stream));
  EXPECT_EQ(device_->BeginCapture(stream).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Copy(from, to, stream).ok());
  ASSERT_TRUE(device_->Fill(from, 4, 1, 7, stream).ok());
  const auto graph = device_->EndCapture(stream);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_FALSE(device_->IsCaptured(stream));
  EXPECT_EQ((*graph)->size(), 2);
  EXPECT_EQ(Downloaded<int32_t>(to, 1)[0], 0);

  for (const int32_t due : {1, 7}) {  // what the launch before left in `from`
    ASSERT_TRUE((*graph)->Launch(stream).ok());
    ASSERT_TRUE(device_->Synchronize(stream).ok());
    EXPECT_EQ(Downloaded<int32_t>(to, 1)[0], due);
  }
  Free(from, 4);
  Free(to, 4);
}

TEST_P(CaptureConformance, StreamsThatAreWaitedForTakePart) {
  void* const at = Uploaded(std::vector<int32_t>{1, 2});
  void* const second = static_cast<char*>(at) + 4;
  auto other = device_->MakeStream();
  auto marker = device_->MakeMarker();
  ASSERT_TRUE(other.ok() && marker.ok());
  const auto capture = [&](bool joins) {
    EXPECT_TRUE(device_->BeginCapture(stream_->get()).ok());
    EXPECT_TRUE((*marker)->Record(stream_->get()).ok());
    EXPECT_TRUE((*marker)->Wait((*other)->get()).ok());
    EXPECT_TRUE(device_->IsCaptured((*other)->get()));
    EXPECT_TRUE(Copy(at, second, (*other)->get()).ok());
    if (joins) {
      EXPECT_TRUE((*marker)->Record((*other)->get()).ok());
      EXPECT_TRUE((*marker)->Wait(stream_->get()).ok());
    }
    return device_->EndCapture(stream_->get());
  };
  EXPECT_EQ(capture(false).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const auto graph = capture(true);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_FALSE(device_->IsCaptured((*other)->get()));
  EXPECT_EQ(Downloaded<int32_t>(second, 1)[0], 2);
  ASSERT_TRUE((*graph)->Launch(stream_->get()).ok());
  ASSERT_TRUE(device_->Synchronize(stream_->get()).ok());
  EXPECT_EQ(Downloaded<int32_t>(second, 1)[0], 1);
  Free(at, 8);
}

TEST_P(CaptureConformance, AWaitBreaksACaptureAndTheStreamGoesOn) {
  const Stream stream = stream_->get();
  void* const at = Uploaded(std::vector<int32_t>{1});
  ASSERT_TRUE(device_->BeginCapture(stream).ok());
  EXPECT_EQ(device_->Synchronize(stream).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(device_->EndCapture(stream).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(device_->Fill(at, 4, 1, 5, stream).ok());
  ASSERT_TRUE(device_->Synchronize(stream).ok());
  EXPECT_EQ(Downloaded<int32_t>(at, 1)[0], 5);
  EXPECT_EQ(device_->EndCapture(stream).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Free(at, 4);
}

TEST_P(CaptureConformance, SegmentsMayBeTakenMeanwhile) {
  EXPECT_EQ(device_->BeginCapture(nullptr).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(device_->BeginCapture(stream_->get()).ok());
  const auto segment = device_->segments().Allocate(1 << 20, nullptr);
  ASSERT_TRUE(segment.ok()) << segment.status();
  ASSERT_TRUE(device_->Fill(*segment, 4, 2, 9, stream_->get()).ok());
  const auto graph = device_->EndCapture(stream_->get());
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_TRUE((*graph)->Launch(stream_->get()).ok());
  ASSERT_TRUE(device_->Synchronize(stream_->get()).ok());
  EXPECT_EQ(Downloaded<int32_t>(*segment, 2), (std::vector<int32_t>{9, 9}));
  device_->segments().Free(*segment, 1 << 20, nullptr);
}

TEST_P(DeviceConformance, ObjectCodeThatIsNoneIsCorrupt) {
  if (device_->traits().kind == DeviceKind::kNull) {
    GTEST_SKIP() << "a null device takes everything";
  }
  const std::string cut_elf = std::string(
                                  "\x7f"
                                  "ELF") +
                              std::string(60, '\1');
  for (const std::string& image :
       {std::string("nonsense"), std::string(), cut_elf}) {
    EXPECT_EQ(ReasonOf(device_->LoadModule(image).status()),
              ErrorReason::kArtifactCorrupt);
  }
}

}  // namespace kiln

#endif  // KILN_TESTS_RUNTIME_DEVICE_SUITE_H_

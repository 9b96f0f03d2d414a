#include "client/corpus_runner/check_expect.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

void AddCounter(wire::Artifact& artifact, const std::string& name,
                int64_t value) {
  wire::Counter& counter = *artifact.mutable_compiled()->add_counters();
  counter.set_name(name);
  counter.set_value(value);
}

wire::Artifact Counted() {
  wire::Artifact artifact;
  AddCounter(artifact, "num_bytes_accessed", 100);
  AddCounter(artifact, "scatter_upon_const_tensor", 1);
  return artifact;
}

std::vector<std::string> Differences(
    const std::string& expect, const wire::Artifact& artifact = Counted()) {
  PlanFigures figures;
  figures.kernels = 2;
  return ExpectDifferences(expect, artifact, figures);
}

TEST(ExpectDifferences, OfWhatIsAsExpectedThereAreNone) {
  EXPECT_THAT(Differences(""), IsEmpty());
  EXPECT_THAT(Differences(R"({"kernels": 2, "num_bytes_accessed": 100,
                      "num_bytes_accessed_at_least": 100,
                      "scatter_upon_const_matches": 1, "inplace_padding": 0})"),
              IsEmpty());
}

TEST(ExpectDifferences, EachFieldNamesWhatWasFoundAndDue) {
  EXPECT_THAT(Differences(R"({"kernels": 1, "num_bytes_accessed": 99,
                      "num_bytes_accessed_at_least": 101,
                      "scatter_upon_const_matches": 0, "inplace_padding": 1})"),
              ElementsAre("inplace_padding: found 0, expected 1",
                          "kernels: found 2, expected 1",
                          "num_bytes_accessed: found 100, expected 99",
                          "num_bytes_accessed: found 100, expected 101 or more",
                          "scatter_upon_const_matches: found 1, expected 0"));
}

TEST(ExpectDifferences, AFieldThatNobodyComparesIsADifference) {
  EXPECT_THAT(
      Differences(R"({"speed": 3})"),
      ElementsAre("speed: expected 3, which this program cannot check"));
  EXPECT_EQ(Differences("{").size(), 1);
  EXPECT_EQ(Differences(R"({"kernels": "few"})").size(), 1);
}

TEST(ExpectDifferences, ABufferHasItsSizesStridesAndMemory) {
  wire::Artifact artifact;
  wire::LaunchPlan& plan = *artifact.mutable_compiled()->mutable_plan();
  plan.add_buffers()->mutable_bytes()->set_value(4 * 8 * 4);
  wire::BufferView& view = *plan.add_outputs()->mutable_view();
  view.set_dtype(wire::DTYPE_FLOAT32);
  for (const int64_t size : {8, 3}) view.add_sizes()->set_value(size);
  for (const int64_t stride : {4, 1}) view.add_strides()->set_value(stride);
  EXPECT_THAT(
      Differences(
          R"({"buffer": {"size": [8, 3], "stride": [4, 1], "allocated": [8, 4]}})",
          artifact),
      IsEmpty());
  EXPECT_THAT(
      Differences(
          R"({"buffer": {"size": [8, 3], "stride": [4, 1], "allocated": [8, 5]}})",
          artifact),
      ElementsAre(
          "buffer: found none, expected one of sizes [8, 3], strides [4, 1] "
          "and 40 elements of memory"));
}

TEST(ApplyExpectedOptions, SetsThoseOfTheWireAndNamesTheOthers) {
  wire::CompileOptions options;
  ASSERT_TRUE(ApplyExpectedOptions("", options).ok());
  ASSERT_TRUE(ApplyExpectedOptions(R"({"kernels": 1})", options).ok());
  ASSERT_TRUE(
      ApplyExpectedOptions(
          R"({"options": {"no_fusion": true, "max_fusion_size": 3}})", options)
          .ok());
  EXPECT_TRUE(options.artifact().no_fusion());
  EXPECT_EQ(options.artifact().max_fusion_size(), 3);
  const absl::Status refused = ApplyExpectedOptions(
      R"({"options": {"epilogue_fusion": true}})", options);
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kUnsupportedOp);
  EXPECT_EQ(refused.message(),
            "option epilogue_fusion: expected true, and a request has no such "
            "option");
}

}  // namespace
}  // namespace kiln

#include "proto/base/refusal.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "proto/base/rpc_details.h"
#include "proto/base/work_error.h"
#include "proto/graph.pb.h"

namespace kiln {
namespace {

constexpr ErrorReason kUnsupported = ErrorReason::kUnsupportedOp;
constexpr ErrorReason kMalformed = ErrorReason::kMalformedGraph;

absl::Status Refused(Refusals refusals) {
  return WithRefusals(MakeError(kUnsupported, "words"), std::move(refusals));
}

// `count` refusals of some 100 bytes.
Refusals Many(uint32_t count) {
  Refusals refusals;
  for (uint32_t i = 0; i < count; ++i) {
    refusals.refusals.push_back(
        {i, "aten.some.default", kUnsupported, std::string(60, 'w')});
  }
  return refusals;
}

const Refusals kTwo = {{{3, "aten.foo.default", kUnsupported, "not known"},
                        {9, "aten.mm.default", kMalformed, "found, due"}},
                       true};

TEST(Refusal, ItComesThroughAWorkersErrorAsItWent) {
  const absl::Status status = Refused(kTwo);
  EXPECT_EQ(RefusalsOf(StatusOf(WorkErrorOf(status))), kTwo);
  EXPECT_EQ(StatusOf(WorkErrorOf(status)), status);
}

TEST(Refusal, ItComesThroughTheDetailsOfACall) {
  const absl::Status status = Refused(kTwo);
  const std::string details =
      RpcDetailsOf(status, absl::Seconds(2), kMostRefusalBytes);
  const absl::Status heard = MakeError(kUnsupported, "compile: words");
  EXPECT_EQ(RefusalsOf(WithRefusalsIn(details, heard)), kTwo);
  EXPECT_EQ(RetryDelayIn(details), absl::Seconds(2));
  EXPECT_EQ(WithRefusalsIn("", heard), heard);
  EXPECT_EQ(WithRefusalsIn("\xff\xff", heard), heard);
  EXPECT_EQ(RpcDetailsOf(heard, std::nullopt, kMostRefusalBytes), "");
}

TEST(Refusal, WordsInFrontLeaveIt) {
  EXPECT_EQ(RefusalsOf(Annotate(Refused(kTwo), "compile")), kTwo);
}

TEST(Refusal, NodesStandInOrderAndOnce) {
  const Refusals found = RefusalsOf(Refused({{{7, "b", kUnsupported, "x"},
                                              {2, "a", kUnsupported, "y"},
                                              {7, "b", kMalformed, "z"}},
                                             false}));
  ASSERT_EQ(found.refusals.size(), 2u);
  EXPECT_EQ(found.refusals[0].node, 2u);
  EXPECT_EQ(found.refusals[1], (Refusal{7, "b", kUnsupported, "x"}));
}

TEST(Refusal, AThousandNodesFitAndABoundThatIsHitIsSaid) {
  EXPECT_EQ(RefusalsOf(Refused(Many(1000))), Many(1000));

  const absl::Status far_too_many = Refused(Many(100'000));
  const Refusals kept = RefusalsOf(far_too_many);
  EXPECT_TRUE(kept.more);
  EXPECT_GT(kept.refusals.size(), 2000u);
  EXPECT_LE(RefusalBytesOf(far_too_many).size(), kMostRefusalBytes);
}

TEST(Refusal, ACallerThatTakesLessGetsTheFirstAndIsTold) {
  const absl::Status status = Refused(Many(1000));
  const std::string details =
      RpcDetailsOf(status, std::nullopt, kDetailBytesByDefault);
  EXPECT_LE(details.size(), kDetailBytesByDefault + 200);
  const Refusals heard =
      RefusalsOf(WithRefusalsIn(details, MakeError(kUnsupported, "words")));
  EXPECT_TRUE(heard.more);
  EXPECT_GT(heard.refusals.size(), 10u);
  EXPECT_EQ(heard.refusals[0], Many(1).refusals[0]);
}

TEST(Refusal, OperatorsAreThoseOfTheRequest) {
  wire::Graph graph;
  graph.add_nodes()->set_op("aten.a");
  graph.add_nodes()->set_op("aten.b");
  const absl::Status status = NameOperators(
      Refused(
          {{{1, "", kUnsupported, "x"}, {2, "", kUnsupported, "y"}}, false}),
      graph);
  EXPECT_EQ(RefusalsOf(status),
            (Refusals{{{1, "aten.b", kUnsupported, "x"}}, false}));
}

}  // namespace
}  // namespace kiln

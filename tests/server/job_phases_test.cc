#include "server/job_phases.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using testing::ElementsAre;

// "name category from to row".
std::vector<std::string> Texts(JobPhases phases) {
  std::vector<std::string> texts;
  for (const wire::JobPhase& phase : phases.Take()) {
    texts.push_back(absl::StrCat(
        phase.name(), " ", phase.category(), " ", phase.start_us(), " ",
        phase.start_us() + phase.duration_us(), " ", phase.row()));
  }
  return texts;
}

class JobPhasesTest : public testing::Test {
 protected:
  SteadyTime At(int64_t us) const {
    return After(origin_, absl::Microseconds(us));
  }

  const SteadyTime origin_ = SteadyNow();
  JobPhases phases_{origin_};
};

TEST_F(JobPhasesTest, PassesFollowOneAnotherFromTheStartOfTheWorkersWork) {
  wire::WorkReply plan;
  for (const auto& [pass, microseconds] :
       {std::pair("import", 20), std::pair("fuse", 30)}) {
    wire::PassTiming& timing = *plan.add_timings();
    timing.set_pass(pass);
    timing.set_microseconds(microseconds);
  }
  phases_.AddPlanning(plan, {At(10), At(100), At(200)});
  EXPECT_THAT(Texts(std::move(phases_)),
              ElementsAre("wait for a worker wait 10 100 0",
                          "import pass 100 120 0", "fuse pass 120 150 0"));
}

TEST_F(JobPhasesTest, NoPassEndsBehindItsWork) {
  wire::WorkReply plan;
  plan.add_timings()->set_microseconds(1000);
  plan.add_timings()->set_microseconds(5);
  phases_.AddPlanning(plan, {At(0), At(100), At(200)});
  EXPECT_THAT(Texts(std::move(phases_)),
              ElementsAre("wait for a worker wait 0 100 0", " pass 100 200 0",
                          " pass 200 200 0"));
}

TEST_F(JobPhasesTest, BuildsAtOneTimeAreInRowsOfTheirOwn) {
  phases_.AddBuilds({{"c", {At(0), At(35), At(40)}},
                     {"a", {At(0), At(10), At(30)}},
                     {"b", {At(0), At(20), At(50)}},
                     {"d", {At(0), At(60), At(70)}}});
  EXPECT_THAT(Texts(std::move(phases_)),
              ElementsAre("a unit 10 30 1", "b unit 20 50 2", "c unit 35 40 1",
                          "d unit 60 70 1"));
}

}  // namespace
}  // namespace kiln

// Random graphs mean the same after all passes, as loops and as plans, as the
// reference interpreter says of the graph that came in.
//
//   random_graphs_test --test_arg=FIRST --test_arg=COUNT   other seeds

#include <cstdlib>
#include <iostream>

#include "gtest/gtest.h"
#include "tests/compiler/schedule/plan_check.h"
#include "tests/support/random_graph.h"

namespace kiln {
namespace {

uint64_t first_seed = 1;
uint64_t seed_count = 150;

TEST(RandomGraphs, MeanTheSameAtEveryLevel) {
  for (uint64_t seed = first_seed; seed < first_seed + seed_count; ++seed) {
    // They grow, so that what fails first is small.
    for (const int nodes : {1, 2, 4, 8, 14}) {
      const std::string text = RandomGraph(seed, nodes);
      ExpectMeansTheSame(text);
      ASSERT_FALSE(testing::Test::HasFailure())
          << "seed " << seed << ", " << nodes << " nodes:\n"
          << text;
    }
  }
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) kiln::first_seed = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) kiln::seed_count = std::strtoull(argv[2], nullptr, 10);
  return RUN_ALL_TESTS();
}

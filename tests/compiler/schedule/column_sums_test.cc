#include "compiler/schedule/column_sums.h"

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "compiler/loop/loop_text.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

// Whether a nest that adds x[64, 32] over its rows can be taken apart, with
// these lines behind the sum, t1.
bool IsTakenApart(const std::string& lines) {
  const auto program = ParseLoopProgram(absl::StrCat(R"(loops @g() {
  in x : f32[64, 32] index 0
  out s : f32[32]
  out y : f32[64, 32]
  nest sum [i0 in 32, reduce i1 in 64] {
    t0 = load f32 x[i1, i0]
    t1 = reduce f32 t0 by sum
)",
                                                     lines, "  }\n}\n"));
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return false;
  return TakeColumnSumsApart(std::get<LoopNest>(program->steps[0]),
                             /*stretch=*/4,
                             static_cast<BufferId>(program->buffers.size()),
                             program->shapes)
      .has_value();
}

TEST(ColumnSums, AreTakenFromWhatIsDoneWithThemAColumn) {
  EXPECT_TRUE(IsTakenApart("    s[i0] = t1\n"));
  EXPECT_TRUE(IsTakenApart("    t2 = exp f32 t1\n    s[i0] = t2\n"));
}

TEST(ColumnSums, AreTakenBesideWhatEachRowStoresWithoutThem) {
  EXPECT_TRUE(IsTakenApart(
      "    t2 = exp f32 t0\n    s[i0] = t1\n    y[i1, i0] = t2\n"));
}

TEST(ColumnSums, StayWhereARowStoresWhatNeedsThem) {
  EXPECT_FALSE(IsTakenApart(
      "    t2 = sub f32 t0, t1\n    s[i0] = t1\n    y[i1, i0] = t2\n"));
}

}  // namespace
}  // namespace kiln

#include "compiler/schedule/fuse_loops.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/loop/loop_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

constexpr char kBuffers[] = R"(loops @g() {
  in x : f32[4, 8] index 0
  in y : f32[8, 4] index 1
  tmp a : f32[4, 8]
  tmp s : f32[4]
  out b : f32[4, 8]
  out c : f32[8, 4]
  out d : f32[4]
  out e : f32[32]
)";

struct Fused {
  LoopProgram program;
  FusionReport report;
};

Fused FuseProgram(const std::string& text, const FusionLimits& limits = {}) {
  auto program = ParseLoopProgram(text);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  FusionOptions options;
  options.explain = true;
  options.limits = limits;
  Fused fused{*std::move(program), {}};
  fused.report = FuseLoops(fused.program, *TargetFromName("sm_90"), options);
  return fused;
}

Fused Fuse(const std::string& steps, const FusionLimits& limits = {}) {
  return FuseProgram(kBuffers + steps + "}\n", limits);
}

constexpr char kExp[] = R"(  nest exp [i0 in 4, i1 in 8] {
    t0 = load f32 x[i0, i1]
    t1 = exp f32 t0
    a[i0, i1] = t1
  }
)";

TEST(FuseLoops, AValueReadInPlaceNeedsNoMemory) {
  const Fused fused =
      Fuse(std::string(kExp) + R"(  nest neg [i0 in 4, i1 in 8] {
    t0 = load f32 a[i0, i1]
    t1 = neg f32 t0
    b[i0, i1] = t1
  }
)");
  ASSERT_EQ(fused.program.steps.size(), 1);
  const auto& nest = std::get<LoopNest>(fused.program.steps[0]);
  EXPECT_EQ(nest.stores.size(), 1) << ToText(fused.program);
}

TEST(FuseLoops, TransposedLoopsAreAligned) {
  const Fused fused =
      Fuse(std::string(kExp) + R"(  nest neg [i0 in 8, i1 in 4] {
    t0 = load f32 a[i1, i0]
    t1 = neg f32 t0
    c[i0, i1] = t1
  }
)");
  EXPECT_EQ(fused.program.steps.size(), 1) << ToText(fused.program);
}

TEST(FuseLoops, AFlatLoopIsCutToTheOthersAxes) {
  const Fused fused =
      Fuse(std::string(kExp) + R"(  nest neg [i0 in 4, i1 in 8] {
    t0 = load f32 a[i0, i1]
    t1 = neg f32 t0
    e[8*i0 + i1] = t1
  }
  nest abs [i0 in 32] {
    t0 = load f32 e[i0]
    t1 = abs f32 t0
    e[i0] = t1
  }
)");
  EXPECT_EQ(fused.report.merges, 1) << ToText(fused.program);
}

TEST(FuseLoops, AnEpilogueJoinsItsReduction) {
  const Fused fused = Fuse(R"(  nest sum [i0 in 4, reduce i1 in 8] {
    t0 = load f32 x[i0, i1]
    t1 = reduce f32 t0 by sum
    s[i0] = t1
  }
  nest neg [i0 in 4] {
    t0 = load f32 s[i0]
    t1 = neg f32 t0
    d[i0] = t1
  }
  nest sub [i0 in 4, i1 in 8] {
    t0 = load f32 x[i0, i1]
    t1 = load f32 s[i0]
    t2 = sub f32 t0, t1
    b[i0, i1] = t2
  }
)");
  EXPECT_EQ(fused.program.steps.size(), 1) << ToText(fused.program);
}

ApartBecause OnlyGround(const Fused& fused) {
  EXPECT_FALSE(fused.report.apart.empty()) << ToText(fused.program);
  return fused.report.apart.empty() ? ApartBecause::kNothing
                                    : fused.report.apart[0].because;
}

TEST(FuseLoops, NeighboursReadMeansApart) {
  const Fused fused =
      Fuse(std::string(kExp) + R"(  nest flip [i0 in 4, i1 in 8] {
    t0 = load f32 a[i0, 7 - i1]
    b[i0, i1] = t0
  }
)");
  EXPECT_EQ(fused.program.steps.size(), 2);
  EXPECT_EQ(OnlyGround(fused), ApartBecause::kReadsElsewhere);
}

TEST(FuseLoops, OtherSpacesMeanApart) {
  const Fused fused =
      Fuse(std::string(kExp) + R"(  nest pick [i0 in 4, i1 in 2] {
    t0 = load f32 a[i0, i1]
    b[i0, i1] = t0
  }
)");
  EXPECT_EQ(OnlyGround(fused), ApartBecause::kIterationDiffers);
}

// A transposed copy and a sum of the same rows: one kernel of both would write
// single elements far apart.
std::string CopyAndSum(int size) {
  return absl::StrReplaceAll(R"(loops @g() {
  in x : f32[N, N] index 0
  out c : f32[N, N]
  out d : f32[N]
  nest copy [i0 in N, i1 in N] {
    t0 = load f32 x[i0, i1]
    c[i1, i0] = t0
  }
  nest sum [i0 in N, reduce i1 in N] {
    t0 = load f32 x[i0, i1]
    t1 = reduce f32 t0 by sum
    d[i0] = t1
  }
}
)",
                             {{"N", absl::StrCat(size)}});
}

TEST(FuseLoops, AKernelThatIsNotCheaperThanTwoStaysTwo) {
  const Fused large = FuseProgram(CopyAndSum(4096));
  EXPECT_EQ(large.program.steps.size(), 2);
  ASSERT_EQ(large.report.apart.size(), 1);
  EXPECT_EQ(large.report.apart[0].because, ApartBecause::kSavesTooLittle);
  EXPECT_THAT(large.report.apart[0].detail, testing::HasSubstr(" us against "));
  // Of few elements the launch is the most.
  EXPECT_EQ(FuseProgram(CopyAndSum(64)).program.steps.size(), 1);
}

TEST(FuseLoops, TheLimitOfNestsIsKept) {
  const Fused fused =
      Fuse(std::string(kExp) + R"(  nest neg [i0 in 4, i1 in 8] {
    t0 = load f32 a[i0, i1]
    t1 = neg f32 t0
    b[i0, i1] = t1
  }
)",
           {.nests = 1});
  EXPECT_EQ(OnlyGround(fused), ApartBecause::kTooLarge);
}

TEST(FuseLoops, ALargeNestTakesInASmallReaderOfItsResultAlone) {
  constexpr FusionLimits kFull = {.accesses = 3};
  const std::string reader = R"(  nest neg [i0 in 4, i1 in 8] {
    t0 = load f32 a[i0, i1]
    t1 = neg f32 t0
    b[i0, i1] = t1
  }
)";
  EXPECT_EQ(Fuse(kExp + reader, kFull).program.steps.size(), 1);
  EXPECT_EQ(
      OnlyGround(Fuse(kExp + reader, {.accesses = 3, .accesses_of_reader = 1})),
      ApartBecause::kTooLarge);
  const std::string neighbour = R"(  nest exp [i0 in 4, i1 in 8] {
    t0 = load f32 x[i0, i1]
    t1 = exp f32 t0
    b[i0, i1] = t1
  }
  nest neg [i0 in 4, i1 in 8] {
    t0 = load f32 x[i0, i1]
    t1 = neg f32 t0
    e[8 * i0 + i1] = t1
  }
)";
  EXPECT_EQ(OnlyGround(Fuse(neighbour, kFull)), ApartBecause::kTooLarge);
}

TEST(FuseLoops, ALibraryCallBetweenKeepsApart) {
  const Fused fused = Fuse(std::string(kExp) +
                           R"(  product mm [m i0 in 2, n i1 in 2, k i2 in 8] {
    a view a f32 [2, 8] strides [8, 1] offset 0 at [i0, i2]
    b view y f32 [8, 2] strides [4, 1] offset 0 at [i2, i1]
    c view s f32 [2, 2] strides [2, 1] offset 0 at [i0, i1]
    t0 = factor f32 number 0
    t1 = factor f32 number 1
    t2 = contract f32 t0, t1
    c = t2
  }
  nest add [i0 in 4, i1 in 8] {
    t0 = load f32 a[i0, i1]
    t1 = load f32 s[i0]
    t2 = add f32 t0, t1
    b[i0, i1] = t2
  }
)");
  EXPECT_EQ(fused.program.steps.size(), 3);
  EXPECT_EQ(OnlyGround(fused), ApartBecause::kCycle);
}

TEST(FuseLoops, StoresThatNobodyReadsAreDropped) {
  const Fused fused = Fuse(kExp);
  EXPECT_TRUE(fused.program.steps.empty());
}

}  // namespace
}  // namespace kiln

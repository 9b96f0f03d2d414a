#include "compiler/loop/loop_text.h"

#include "absl/strings/str_replace.h"
#include "compiler/graph/graph_text.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

std::string Lowered(absl::string_view graph_text) {
  const auto graph = ParseGraph(graph_text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return "";
  const auto program = LowerGraph(*graph);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? ToText(*program) : "";
}

void ExpectReadsBack(const std::string& text) {
  const auto program = ParseLoopProgram(text);
  ASSERT_TRUE(program.ok()) << program.status() << "\n" << text;
  EXPECT_EQ(ToText(*program), text);
  EXPECT_EQ(VerifyLoops(*program), absl::OkStatus());
}

TEST(LoopText, ReadsBackWhatItPrints) {
  ExpectReadsBack(Lowered(R"(
      graph @g(N in [2, 64] = 6)(%x: f32[N, 8], %w: f32[8, 4], %b: f32[4],
                                 %i: i64[3], %m: f32[N])
          -> (%y, %s, %d, %c, %r) {
        %mm = addmm(%b, %x, %w)
        %y = mul.Tensor(%mm, 0.1)
        %s = sum.dim_IntList(%y, [0])
        %e = embedding(%x, %i)
        %d = embedding_dense_backward(%e, %i, 5, -1, false)
        %c = cat([%x, %x], 1)
        %r = scatter_reduce.two(%m, 0, %i, %m, "amax")
        %n = add.Scalar(%m, 1)
        mutate %m = %n
      })"));
}

TEST(LoopText, NamesTheLineItCannotRead) {
  const auto program = ParseLoopProgram(
      "loops @g() {\n  tmp a : f32[4]\n  nest n [i0 in 4] {\n"
      "    t0 = load f32 b[i0]\n  }\n}\n");
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.status().message().find("line 4"), std::string::npos)
      << program.status();
}

constexpr absl::string_view kSumsOverRows = R"(loops @sums() {
  in x : f32[20, 8] index 0
  tmp a : f32[20]
  tmp s : f32[3, 8]
  nest n [i0 in 20, reduce i1 in 8] {
    t0 = load f32 x[i0, i1]
    t1 = reduce f32 t0 by sum
    t2 = isnan bool t0
    a[i0] = t1
    s[i0 // 7, i1] = t0 summed over 7
  }
  return view s f32 [3, 8] strides [8, 1] offset 0
}
)";

TEST(LoopText, ReadsSumsOverStretchesOfRows) {
  const std::string text(kSumsOverRows);
  ExpectReadsBack(text);
  const auto program = ParseLoopProgram(text);
  ASSERT_TRUE(program.ok()) << program.status();
  const Store& sum = std::get<LoopNest>(program->steps[0]).stores[1];
  EXPECT_EQ(sum.mode, StoreMode::kSum);
  EXPECT_EQ(sum.stretch, 7);
}

TEST(LoopText, AStretchIsANumber) {
  const auto program = ParseLoopProgram(
      absl::StrReplaceAll(kSumsOverRows, {{"over 7", "over N"}}));
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.status().message().find("line 10"), std::string::npos)
      << program.status();
}

TEST(LoopText, SaysWhenTheEndIsMissing) {
  EXPECT_FALSE(ParseLoopProgram("loops @g() {\n").ok());
  EXPECT_FALSE(ParseLoopProgram("").ok());
}

// A program whose nest has the given lines.
absl::Status Verify(const std::string& axes, const std::string& lines) {
  const auto program = ParseLoopProgram(
      "loops @g() {\n  in x : f32[4, 8] index 0\n  tmp a : f32[4]\n"
      "  tmp c : f32[4, 8]\n  nest n [" +
      axes + "] {\n" + lines + "  }\n}\n");
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? VerifyLoops(*program) : program.status();
}

void ExpectBreaks(absl::string_view rule, const absl::Status& status) {
  EXPECT_EQ(status.message().substr(0, rule.size()), rule) << status;
}

TEST(LoopVerifier, ReductionAxesStandBehindTheOthers) {
  ExpectBreaks("L1", Verify("reduce i0 in 4, i1 in 8",
                            "    t0 = load f32 x[i0, i1]\n    a[i0] = t0\n"));
}

TEST(LoopVerifier, NodesReadWhatStandsBefore) {
  ExpectBreaks("L2", Verify("i0 in 4",
                            "    t0 = neg f32 t1\n"
                            "    t1 = constant f32 1\n"
                            "    a[i0] = t1\n"));
}

TEST(LoopVerifier, AnIndexHasAnExpressionForEachDimension) {
  ExpectBreaks("L3",
               Verify("i0 in 4", "    t0 = load f32 x[i0]\n    a[i0] = t0\n"));
}

TEST(LoopVerifier, LoadsAndStoresHaveTheTypeOfTheBuffer) {
  ExpectBreaks(
      "L4", Verify("i0 in 4", "    t0 = load f64 x[i0, 0]\n    a[i0] = t0\n"));
}

TEST(LoopVerifier, ReductionsNeedAReducedAxis) {
  ExpectBreaks("L5", Verify("i0 in 4",
                            "    t0 = load f32 x[i0, 0]\n"
                            "    t1 = reduce f32 t0 by sum\n"
                            "    a[i0] = t1\n"));
}

TEST(LoopVerifier, ATallyCountsIntegersAndSaysHowMany) {
  ExpectBreaks("L5", Verify("i0 in 4, reduce i1 in 8",
                            "    t0 = load f32 x[i0, i1]\n"
                            "    t1 = tally i32 t0 number 16\n"
                            "    a[i0] = t0\n"));
  ExpectBreaks("L5", Verify("i0 in 4, reduce i1 in 8",
                            "    t0 = load f32 x[i0, i1]\n"
                            "    t1 = cast i32 t0\n"
                            "    t2 = tally i32 t1 number 0\n"
                            "    a[i0] = t0\n"));
}

TEST(LoopVerifier, ANestStoresSomething) {
  ExpectBreaks("L6", Verify("i0 in 4", "    t0 = load f32 x[i0, 0]\n"));
}

TEST(LoopVerifier, OnePlaceHoldsNoValueOfEachReducedPoint) {
  ExpectBreaks("L7", Verify("i0 in 4, reduce i1 in 8",
                            "    t0 = load f32 x[i0, i1]\n    a[i0] = t0\n"));
}

TEST(LoopVerifier, AKernelReadsWhatItWritesInPlaceOnly) {
  ExpectBreaks("L8", Verify("i0 in 4, i1 in 7",
                            "    t0 = load f32 c[i0, i1]\n"
                            "    c[i0, i1 + 1] = t0\n"));
}

TEST(LoopVerifier, OnlyIntegersAreRaisedAtomically) {
  ExpectBreaks("L12", Verify("i0 in 4",
                             "    t0 = load f32 x[i0, 0]\n"
                             "    a[i0] max= t0\n"));
}

TEST(LoopVerifier, ATemporaryIsWrittenBeforeItIsRead) {
  ExpectBreaks(
      "L10", Verify("i0 in 4", "    t0 = load f32 c[i0, 0]\n    a[i0] = t0\n"));
}

// kSumsOverRows with `from` replaced.
absl::Status VerifySums(absl::string_view from, absl::string_view to) {
  const auto program =
      ParseLoopProgram(absl::StrReplaceAll(kSumsOverRows, {{from, to}}));
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? VerifyLoops(*program) : program.status();
}

TEST(LoopVerifier, StretchesAreSummedWhole) {
  ExpectBreaks("L11", VerifySums("over 7", "over 7 where t2"));
  ExpectBreaks("L11", VerifySums("over 7", "over 0"));
}

TEST(LoopVerifier, SumsOverStretchesAreFloats) {
  ExpectBreaks("L11", VerifySums("f32", "i64"));
}

}  // namespace
}  // namespace kiln

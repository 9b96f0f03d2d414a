#include "compiler/loop/loop_text.h"

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "compiler/graph/graph_text.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

std::string Lowered(absl::string_view graph_text,
                    const ArtifactOptions& options = {}) {
  const auto graph = ParseGraph(graph_text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return "";
  const auto program = LowerGraph(*graph, options);
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

TEST(LoopText, ReadsBackContractionsAndOrders) {
  ExpectReadsBack(Lowered(R"(
      graph @g(N in [2, 64] = 6)(%x: bf16[N, 4, 9, 9], %w: bf16[6, 2, 3, 3],
                                 %b: bf16[6], %g: bf16[N, 6, 5, 5],
                                 %p: i64[N, 3, 4], %q: i64[N, 4, 5])
          -> (%y, %dx, %dw, %s, %t, %u) {
        %y = convolution(%x, %w, %b, [2, 2], [1, 1], [1, 1], false, [0, 0], 2)
        %dx, %dw, %db = convolution_backward(%g, %x, %w, none, [2, 2], [1, 1],
            [1, 1], false, [0, 0], 2, [true, true, false])
        %s = bmm(%p, %q)
        %r = view(%s, [3*N, 5])
        %t, %u = prims.order(%r, 5, 0, true, "sort")
      })"));
}

TEST(LoopText, ReadsBackAConvolutionInOneOrder) {
  const std::string text = Lowered(R"(
      graph @g() on cuda(%x: f32[1, 4, 8, 8], %w: f32[2, 4, 3, 3]) -> (%y) {
        %y = convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
      })",
                                   {.deterministic = true});
  EXPECT_TRUE(absl::StrContains(text, "    deterministic\n"));
  ExpectReadsBack(text);
}

TEST(LoopText, ReadsBackAttention) {
  ExpectReadsBack(Lowered(R"(
      graph @g(N in [2, 64] = 6)(%q: bf16[2, 4, N, 64], %k: bf16[2, 2, 9, 64],
                                 %b: bf16[2, 1, N, 9], %s: i64[],
                                 %g: bf16[2, 4, N, 64])
          -> (%o, %l, %dq, %dk, %dv) {
        %e = expand(%b, [2, 4, N, 9])
        %o, %l = prims.attention(%q, %k, %k, %e, %s, %s, "bottom_right", 5,
            0.125, 0.1, [256*N, 64*N, 64, 1])
        %dq, %dk, %dv = prims.attention_backward(%g, %q, %k, %k, %o, %l, %e,
            %s, %s, "bottom_right", 5, 0.125, 0.1, [256*N, 64*N, 64, 1],
            [1152, 576, 64, 1], [1152, 576, 64, 1])
      })"));
}

// An attention whose statements are replaced one at a time.
std::string AttentionWith(absl::string_view from, absl::string_view to) {
  return absl::StrReplaceAll(R"(loops @g() {
  in q : f16[1, 2, 4, 8] index 0
  in k : f16[1, 1, 6, 8] index 1
  out o : f16[1, 2, 4, 8]
  out l : f32[1, 2, 4]
  attention sdpa [b 1, h 2, x 1, m 4, n 6, e 8, v 8] {
    query view q f16 [1, 2, 4, 8] strides [64, 32, 8, 1] offset 0
    key view k f16 [1, 1, 6, 8] strides [48, 48, 8, 1] offset 0
    value view k f16 [1, 1, 6, 8] strides [48, 48, 8, 1] offset 0
    out view o f16 [1, 2, 4, 8] strides [64, 32, 8, 1] offset 0
    logsumexp view l f32 [1, 2, 4] strides [8, 4, 1] offset 0
    scale 0.5
  }
  return view o f16 [1, 2, 4, 8] strides [64, 32, 8, 1] offset 0
})",
                             {{from, to}});
}

TEST(LoopText, EachInvariantOfAnAttentionIsLookedAt) {
  const auto verified = [](absl::string_view from, absl::string_view to) {
    const absl::StatusOr<LoopProgram> program =
        ParseLoopProgram(AttentionWith(from, to));
    if (!program.ok()) return std::string(program.status().message());
    return std::string(VerifyLoops(*program).message());
  };
  EXPECT_EQ(verified("scale 0.5", "scale 0.25"), "");
  const std::string replaced[][3] = {
      {"    scale 0.5", "    dropout 0.5",
       "A1 at attention sdpa: expected seed"},
      {"n 6", "n 7", "A2 at attention sdpa: key: found 4 sizes"},
      {"key view k f16", "key view k bf16",
       "A3 at attention sdpa: key: found bf16"},
      {"scale 0.5", "window -1", "A4 at attention sdpa: scale 1"},
      {"scale 0.5", "shift 0.5",
       "expected an array, scale, causal, window, dropout or own"}};
  for (const auto& [from, to, due] : replaced)
    EXPECT_TRUE(absl::StrContains(verified(from, to), due))
        << verified(from, to);
}

// A product whose statements are replaced one at a time.
std::string ProductWith(absl::string_view from, absl::string_view to) {
  return absl::StrReplaceAll(R"(loops @g() {
  in x : f32[4, 8] index 0
  in w : f32[8, 6] index 1
  in s : f32[4, 6, 8] index 2
  out y : f32[4, 6]
  product mm [m i0 in 4, n i1 in 6, k i2 in 8] {
    a view x f32 [4, 8] strides [8, 1] offset 0 at [i0, i2]
    b view w f32 [8, 6] strides [6, 1] offset 0 at [i2, i1]
    c view y f32 [4, 6] strides [6, 1] offset 0 at [i0, i1]
    t0 = factor f32 number 0
    t1 = factor f32 number 1
    t2 = contract f32 t0, t1
    t3 = load f32 s[i0, i1, 0]
    t4 = add f32 t2, t3
    c = t4
  }
  return view y f32 [4, 6] strides [6, 1] offset 0
}
)",
                             {{from, to}});
}

TEST(LoopText, AProductNeedsTheAxesOfItsForm) {
  ExpectReadsBack(ProductWith("none", "none"));
  const auto program = ParseLoopProgram(
      ProductWith("[m i0 in 4, n i1 in 6", "[n i0 in 4, m i1 in 6"));
  EXPECT_EQ(
      program.status().message(),
      "line 6 column 15: found 'n i0 in 4, m i1 in 6, k i2 in ', expected axis "
      "m for n");
  EXPECT_EQ(
      ParseLoopProgram(ProductWith(", k i2 in 8]", "]")).status().message(),
      "line 6 column 15: found 'm i0 in 4, n i1 in 6] {', expected axes [b,] "
      "m, "
      "n, k");
}

TEST(LoopVerifier, NamesWhatBreaksARuleOfContractions) {
  struct Row {
    absl::string_view from, to, broken;
  };
  for (const Row& row :
       {Row{"at [i0, i2]", "at [i0]",
            "C2 at product mm: a: found 2 strides and 1 indices, expected 2"},
        Row{"at [i2, i1]", "at [i2, 2*i1]", "C2 at product mm: b: index 2*i1"},
        Row{"t1 = factor f32 number 1", "t1 = constant f32 1",
            "C3 at product mm: t2 is no sum of two factors"},
        Row{"t1 = factor f32 number 1", "t1 = factor f32 number 2",
            "C3 at product mm: t1: factor 2"},
        Row{"t0 = factor f32", "t0 = factor bf16",
            "C3 at product mm: t0: found bf16, expected f32"},
        Row{"t4 = add f32 t2, t3", "t4 = add f32 t2, t0",
            "C4 at product mm: t4 reads a factor and the sum"},
        Row{"s[i0, i1, 0]", "s[i0, i1, i2]",
            "C4 at product mm: t3 loads at i2"},
        Row{"s[i0, i1, 0]", "x[i0]",
            "C4 at product mm: t3 loads x: found f32 at 1 indices"},
        Row{"c = t4", "c = t3",
            "C5 at product mm: t3 is no f32 that comes from "
            "the sum"},
        Row{"in w : f32[8, 6] index 1", "tmp w : f32[8, 6]",
            "L10 at mm: reads w, which nothing wrote"}}) {
    const auto program = ParseLoopProgram(ProductWith(row.from, row.to));
    ASSERT_TRUE(program.ok()) << program.status() << row.to;
    EXPECT_EQ(VerifyLoops(*program).message(), row.broken);
  }
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

#include "proto/plan/plan_text.h"

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "proto/plan/plan_verifier.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

// Everything that a plan can say, but for host calls and regions.
constexpr char kPlan[] =
    R"(launch_plan (s0 in [1, 64] from size 0 0, s1 "rows" in [0, 8] from step, s2 in [-1, 9] from scalar 1 0) {
  input f32 [s0, 4] strides [4, 1] offset 0 cpu align 16 mutated
  input scalar s2
  buffer b0 "x" input 0 bytes 16*s0
  buffer b1 "buf1" arena bytes 64 offset 64
  buffer b2 "y" output bytes 64
  buffer b3 "c" constant 0 bytes 8
  kernel k0 kiln_poi_fused_add_5f0c label kiln_poi_fused_add_0 module 0
    from [add, _to_copy] reads 16*s0 writes 16*(s0 + -1) mapped "XBLOCK=16,VECTOR=4" over [s0, 4]
    | kernel kiln_poi_fused_add_0 {
    |   nest "add"
    | }
    |
  launch k0 grid [floordiv(s0 + 255, 256), 1, 1] block [256, 1, 1] args [b0 f32 [s0, 4], b1 at 4*s1, b2 at 8 f32 [], seed, seed_slot, s0*4 + mod(s0, 3)] shared 64 cluster 2 programmatic_dependent_launch blocks_per_multiprocessor 32 nodes [0, 7]
  extern addmm (b0 f32 [4, s0] strides [1, 4] offset 0; b1 f32 [4, 4] strides [4, 1] offset 0) -> (b2 f32 [4, 4] strides [4, 1] offset 0) alpha=float 0.1 beta=-3 activation="" stride=[s0, 1] nodes [3, 14]
  copy b1 f32 [16] strides [1] offset 0 -> b2 f32 [16] strides [1] offset 0
  fill b2 bf16 [2] strides [1] offset 1 bits 16256
  assert s0 < 7 and not(s1 == max(s0, 2)) or s2 <= 1 "a \"message\"\n"
  bind s1 = s0*(s0 + (s2 + 1))
  output view b2 f32 [4, 4] strides [4, 1] offset 0
  output sym s0 + 1
  output none
  arena 128 bytes, peak live 128
}
)";

// kPlan with one change.
std::string Changed(absl::string_view from, absl::string_view to) {
  EXPECT_THAT(std::string(kPlan), HasSubstr(std::string(from)));
  return absl::StrReplaceAll(kPlan, {{from, to}});
}

TEST(PlanText, ReadsBackAllThatAPlanHolds) {
  const auto plan = ParsePlan(kPlan);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(PlanText(*plan), kPlan);
  const auto again = ParsePlan(PlanText(*plan));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), plan->SerializeAsString());
  EXPECT_EQ(plan->steps(4).assertion().message(), "a \"message\"\n");
  EXPECT_EQ(plan->kernels(0).text(),
            "kernel kiln_poi_fused_add_0 {\n  nest \"add\"\n}\n");
}

TEST(PlanText, ReadsBackWhatTheRuntimeWouldRefuse) {
  const std::string text =
      "launch_plan () {\n  input none\n  buffer b0 \"\\x01\" unspecified bytes "
      "0\n  nothing\n  host \"aten.fft\" () -> ()\n  region \"cond\"\n  output "
      "nothing\n  arena 0 bytes, peak live 0\n}\n";
  const auto plan = ParsePlan(text);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(PlanText(*plan), text);
}

TEST(PlanText, LeavesKernelsTextsOutOnRequest) {
  EXPECT_THAT(PlanText(*ParsePlan(kPlan), KernelTexts::kWithout),
              testing::Not(HasSubstr("nest")));
}

struct BadText {
  const char* from;
  const char* to;
  const char* message;
};

TEST(PlanText, SaysWhereItFoundWhatAndWhatWasDue) {
  for (const BadText& bad : {
           BadText{"launch_plan", "plan",
                   "line 1 column 1: found 'plan (s0 in [1, 64] from size ', "
                   "expected 'launch_plan'"},
           BadText{"b1 \"buf1\"", "b3 \"buf1\"",
                   "line 5 column 10: found 'b3 \"buf1\" arena bytes 64 "
                   "offse', expected 'b1'"},
           BadText{
               "cluster 2 programmatic_dependent_launch "
               "blocks_per_multiprocessor 32",
               "cluster x",
               "line 14 column 172: found 'x nodes [0, 7]', expected a number"},
           BadText{"input 0 bytes 16*s0", "input 0 bytes 16*",
                   "line 5 column 3: found 'buffer b1"},
           BadText{"floordiv(s0", "ceildiv(s0", "expected a number, a symbol"},
           BadText{"output none", "output some", "expected 'nothing'"},
           BadText{"peak live 128", "peak live", "expected a number"},
           BadText{"  arena 128 bytes, peak live 128\n}\n", "",
                   "found the end"},
       }) {
    const auto plan = ParsePlan(Changed(bad.from, bad.to));
    ASSERT_FALSE(plan.ok()) << bad.to;
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(bad.message));
  }
}

TEST(PlanText, BracketsInOneAnotherHaveAnEnd) {
  EXPECT_FALSE(ParsePlan("launch_plan () { input scalar " +
                         std::string(100000, '(') + "1")
                   .ok());
}

absl::Status Verify(const std::string& text) {
  wire::CompilePlan compiled;
  const auto plan = ParsePlan(text);
  if (!plan.ok()) return plan.status();
  *compiled.mutable_plan() = *plan;
  compiled.add_constants()->set_data("12345678");
  return VerifyLaunchPlan(compiled, 1);
}

TEST(PlanVerifier, TakesASoundPlan) {
  EXPECT_EQ(Verify(kPlan), absl::OkStatus());
}

struct Fault {
  const char* from;
  const char* to;
  const char* message;
};

TEST(PlanVerifier, EachRuleThatIsBrokenIsNamed) {
  for (const Fault& fault : {
           Fault{"size 0 0", "size 2 0", "R1: symbol s0: input 2"},
           Fault{"scalar 1 0", "scalar 0 0", "R1: symbol s2: input 0"},
           Fault{"from scalar", "from nowhere", "R1: symbol s2 has no source"},
           Fault{"\"x\" input 0", "\"x\" input 1", "R1: buffer x: input 1"},
           Fault{"constant 0", "constant 1", "R1: buffer c: constant 1 of 1"},
           Fault{"\"y\" output", "\"y\" unspecified",
                 "R1: buffer y has no kind"},
           Fault{"module 0", "module 1", "R1: kernel kiln_poi_fused_add_0"},
           Fault{"launch k0", "launch k1", "step 0: launch plan: R1: kernel 1"},
           Fault{"args [b0", "args [b7", "R1: buffer 7 of 4"},
           Fault{"seed,", "none,", "R1: a kernel argument of no kind"},
           Fault{"beta=-3", "beta=none", "R1: attribute beta has no value"},
           Fault{"  output none", "  nothing\n  output none",
                 "step 6: launch plan: R1: a step of no kind"},
           Fault{"s0 + 1\n", "s9 + 1\n", "symbol 9 of 3"},
           Fault{"f32 [s0, 4] strides [4, 1]", "f32 [s0, 4] strides [4]",
                 "R2: input 0 has 2 sizes and 1 strides"},
           Fault{"view b2 f32 [4, 4]", "view b2 f32 [4]",
                 "output 0: launch plan: R2"},
           Fault{"fill b2 bf16", "fill b2 dtype12", "R2: dtype 12"},
           Fault{"offset 64", "offset 65", "R3: buffer buf1: 64 bytes at 65"},
           Fault{"view b2 f32 [4, 4] strides [4, 1] offset 0",
                 "view b2 f32 [4, 4] strides [4, 1] offset 1",
                 "R3: a view of y: elements 1 to 16 of f32 in 64 bytes"},
           Fault{"256), 1, 1]", "256), 1]", "R4: 2 grid and 3 block"},
           Fault{"block [256", "block [1025", "R4: block extent 1025"},
           Fault{"block [256", "block [0", "R4: block extent 0"},
           Fault{"bind s1", "bind s0", "R5: symbol 0 is not one"},
           Fault{"  bind s1 = s0*(s0 + (s2 + 1))\n", "",
                 "R5: symbol rows is bound by no step"},
           Fault{"  bind s1", "  bind s1 = 1\n  bind s1",
                 "R5: symbol rows is bound twice"},
           Fault{"-> b2 f32 [16]", "-> b2 i32 [16]",
                 "R6: copy of f32 rank 1 to i32 rank 1"},
           Fault{"-> b2 f32 [16] strides [1]", "-> b2 f32 [] strides []",
                 "R6: copy of f32 rank 1 to f32 rank 0"},
           Fault{"view b2 f32 [4, 4]", "view b1 f32 [4, 4]",
                 "R7: output 0: views buf1"},
       }) {
    const absl::Status status = Verify(Changed(fault.from, fault.to));
    EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactCorrupt) << fault.to;
    EXPECT_THAT(std::string(status.message()), HasSubstr(fault.message));
  }
}

}  // namespace
}  // namespace kiln

// Attention by cuDNN against its definition in doubles. Skipped without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "tests/gpu/cuda_opener.h"
#include "tests/runtime/extern_kernels/attention_suite.h"
#include "tests/runtime/extern_kernels/call_runner.h"

namespace kiln {
namespace {

class CudaAttention : public testing::Test {
 protected:
  void SetUp() override {
    opened_ = OpenCudaOrNull();
    if (opened_.device == nullptr) GTEST_SKIP() << "no GPU";
  }

  absl::Status Run(absl::string_view name, std::vector<Operand*> inputs,
                   std::vector<Operand*> outputs,
                   std::vector<ExternAttribute> attributes) {
    ExternCall call;
    call.name = name;
    call.attributes = attributes;
    return RunCall(call, inputs, outputs, *opened_.device, *opened_.externs);
  }

  OpenedDevice opened_;
};

std::vector<AttentionShape> Shapes() {
  return {{.name = "plain"},
          {.name = "causal", .causal = true, .heads_inside = true},
          {.name = "half", .dtype = DType::kFloat16, .causal = true},
          {.name = "grouped", .x = 2, .e = 128, .v = 128, .causal = true},
          {.name = "odd", .m = 77, .n = 131, .e = 32, .v = 32},
          {.name = "one query", .m = 1, .n = 70},
          {.name = "wide", .b = 1, .h = 2, .x = 2, .e = 256, .v = 256},
          {.name = "two widths", .e = 128, .v = 64},
          {.name = "window", .m = 256, .n = 256, .causal = true, .window = 40},
          {.name = "bias", .bias = {2, 4, 128, 128}},
          {.name = "bias of batches", .bias = {2, 1, 128, 128}},
          {.name = "bias of keys", .bias = {2, 1, 1, 128}},
          {.name = "bias, causal", .causal = true, .bias = {1, 4, 128, 128}}};
}

TEST_F(CudaAttention, GivesWhatItsDefinitionDoes) {
  for (const AttentionShape& s : Shapes()) {
    SCOPED_TRACE(s.name);
    // Weights and results are rounded to 8 bits once each; f16 has 11.
    ExpectAsDefined(s, {4e-3, 1e-5}, *opened_.device, *opened_.externs);
  }
}

// Takes of the engines that an attention may name the one of a number, modulo how many
// there are.
class Engines final : public ExternLibrary {
 public:
  explicit Engines(ExternLibrary& of) : of_(of) {}

  absl::StatusOr<std::shared_ptr<const PreparedCall>> Prepare(
      const ExternProblem& problem) override {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesFor(problem));
    EXPECT_FALSE(names.empty());
    if (names.empty()) return of_.Prepare(problem);
    most = std::max(most, static_cast<int>(names.size()));
    auto named = std::get<AttentionProblem>(problem);
    named.algorithm = names[static_cast<size_t>(number) % names.size()];
    ASSIGN_OR_RETURN(auto call, of_.Prepare(named));
    EXPECT_EQ(call->algorithm(), named.algorithm);
    return call;
  }

  int number = 0;
  int most = 1;  // names of a problem

 private:
  // Asked for once a problem: each is compiled for it.
  absl::StatusOr<std::vector<std::string>> NamesFor(
      const ExternProblem& problem) {
    for (const auto& [known, names] : names_)
      if (known == problem) return names;
    ASSIGN_OR_RETURN(auto names, of_.Algorithms(problem, 12));
    names_.push_back({problem, names});
    return names;
  }

  ExternLibrary& of_;
  std::vector<std::pair<ExternProblem, std::vector<std::string>>> names_;
};

TEST_F(CudaAttention, EachEngineThatADecisionMayNameGivesTheDefinition) {
  Engines engines(*opened_.externs);
  for (; engines.number < engines.most; ++engines.number) {
    for (const AttentionShape& s : std::vector<AttentionShape>{
             {.name = "causal", .causal = true, .heads_inside = true},
             {.name = "grouped", .x = 2, .e = 128, .v = 128},
             {.name = "odd", .m = 77, .n = 131, .dtype = DType::kFloat16},
             {.name = "bias", .bias = {2, 1, 128, 128}}}) {
      SCOPED_TRACE(absl::StrCat(s.name, ", engine ", engines.number));
      ExpectAsDefined(s, {4e-3, 1e-5}, *opened_.device, engines);
    }
  }
}

// Of equal weights, values that are the unit matrix show which ones forward left,
// and a gradient that is it those that backward left.
TEST_F(CudaAttention, DropsTheSameWeightsInBothDirections) {
  const AttentionShape s{.name = "dropout", .m = 64, .n = 64};
  Operand q = Heads(s, s.h, s.m, s.e), k = q, v = q, g = q, out = q, dq = q,
          dk = q, dv = q;
  Operand logsumexp =
      Operand::Dense(DType::kFloat32, {s.b, s.h, s.m}, {0, 1, 2});
  Operand seed(DType::kInt64, {}, {}), offset = seed;
  seed.Set(0, 1234);
  ForEachIndex(v.sizes(), [&](const std::vector<int64_t>& at) {
    v.Set(v.Offset(at), at[2] == at[3]);
    g.Set(g.Offset(at), at[2] == at[3]);
  });
  const std::vector<ExternAttribute> attributes = {{"dropout", 0.25},
                                                   {"scale", 1.0}};
  absl::Status status = Run("attention", {&q, &k, &v, &seed, &offset},
                            {&out, &logsumexp}, attributes);
  ASSERT_TRUE(status.ok()) << status;
  status = Run("attention_backward",
               {&g, &q, &k, &v, &out, &logsumexp, &seed, &offset},
               {&dq, &dk, &dv}, attributes);
  ASSERT_TRUE(status.ok()) << status;
  int kept = 0, apart = 0;
  ForEachIndex(out.sizes(), [&](const std::vector<int64_t>& at) {
    const bool left = out.At(at) != 0;
    kept += left;
    apart += left != (dv.At({at[0], at[1], at[3], at[2]}) != 0);
  });
  EXPECT_EQ(apart, 0);
  EXPECT_NEAR(kept / (2.0 * 4 * 64 * 64), 0.75, 0.02);
}

TEST_F(CudaAttention, RefusesWhatNoKernelHas) {
  const std::vector<ExternAttribute> attributes = {{"scale", 1.0}};
  const auto reason = [&](const AttentionShape& s) {
    Operand q = Heads(s, s.h, s.m, s.e), k = Heads(s, s.x, s.n, s.e),
            v = Heads(s, s.x, s.n, s.v), out = Heads(s, s.h, s.m, s.v);
    Operand logsumexp =
        Operand::Dense(DType::kFloat32, {s.b, s.h, s.m}, {0, 1, 2});
    return ReasonOf(
        Run("attention", {&q, &k, &v}, {&out, &logsumexp}, attributes));
  };
  for (const AttentionShape& s :
       std::vector<AttentionShape>{{.name = "36", .e = 36},
                                   {.name = "264", .e = 264},
                                   {.name = "no keys", .n = 0},
                                   {.dtype = DType::kFloat32}}) {
    EXPECT_EQ(reason(s), ErrorReason::kUnsupportedOp) << s.name;
  }
  // Three heads of two keys.
  EXPECT_EQ(reason({.name = "shares", .h = 3, .x = 2}),
            ErrorReason::kArtifactCorrupt);
}

}  // namespace
}  // namespace kiln

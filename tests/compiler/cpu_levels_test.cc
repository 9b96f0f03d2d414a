// The instructions that a level's object code holds: never more than the level
// has, so that an artifact runs wherever its client said it would.

#include <gtest/gtest.h>
#include <stdio.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/compiler.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "proto/corpus/corpus_bytes.h"
#include "proto/corpus/corpus_case.h"
#include "proto/key/request_digest.h"

namespace kiln {
namespace {

// The disassembly of all units of a model's first graph.
std::string Disassembly(const std::string& level) {
  const auto cases =
      ReadCorpusFile("tests/corpus/models/mlp_layernorm_train.jsonl");
  EXPECT_TRUE(cases.ok()) << cases.status();
  wire::CompileRequest request;
  *request.mutable_graph() = cases->front().graph;
  request.mutable_target()->mutable_cpu()->set_level(level);
  auto canonical = CanonicalizeRequest(request);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  wire::PlanRequest work;
  *work.mutable_compile() = std::move(canonical->request);
  const auto compiled = CompileGraph(work);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  auto toolchain = MakeHostCcToolchain({.scratch_dir = testing::TempDir()});
  const std::string file = testing::TempDir() + "/unit.so";
  std::string text;
  for (const wire::TranslationUnit& unit : compiled->plan.units()) {
    const std::vector<std::string> flags(unit.flags().begin(),
                                         unit.flags().end());
    const auto built = toolchain->Build(unit.source(), flags);
    EXPECT_TRUE(built.ok()) << built.status();
    std::ofstream(file, std::ios::binary) << built->image;
    FILE* pipe = popen(
        absl::StrCat("objdump -d --no-show-raw-insn ", file).c_str(), "r");
    char buffer[1 << 12];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      text.append(buffer, n);
    EXPECT_EQ(pclose(pipe), 0);
  }
  EXPECT_TRUE(absl::StrContains(text, "%xmm")) << "nothing was disassembled";
  return text;
}

TEST(CpuLevels, NoInstructionIsBeyondTheLevel) {
  for (const char* level : {"x86-64", "x86-64-v2"}) {
    const std::string text = Disassembly(level);
    EXPECT_FALSE(absl::StrContains(text, "%ymm")) << level;
    EXPECT_FALSE(absl::StrContains(text, "%zmm")) << level;
    EXPECT_FALSE(absl::StrContains(text, "\tvmov")) << level;  // of AVX
  }
  const std::string v3 = Disassembly("x86-64-v3");
  EXPECT_TRUE(absl::StrContains(v3, "%ymm"));
  EXPECT_FALSE(absl::StrContains(v3, "%zmm"));
  EXPECT_TRUE(absl::StrContains(Disassembly("x86-64-v4"), "%zmm"));
}

}  // namespace
}  // namespace kiln

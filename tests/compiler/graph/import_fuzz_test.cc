// Graphs with random bytes changed: each is refused with a reason, or is sound.

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "compiler/graph/graph_import.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph/graph_verifier.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_case.h"

namespace kiln {
namespace {

// The bytes of one graph, some of them overwritten, cut out or doubled.
std::string Damaged(std::string bytes, std::mt19937& random) {
  const auto below = [&](size_t n) { return random() % n; };
  const int changes = 1 + static_cast<int>(below(4));
  for (int i = 0; i < changes && bytes.size() > 8; ++i) {
    const size_t at = below(bytes.size());
    switch (below(4)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] + 1);
        break;
      case 2:
        bytes.erase(at, 1 + below(8));
        break;
      default:
        bytes.insert(at, bytes.substr(at, 1 + below(8)));
        break;
    }
  }
  return bytes;
}

void CheckDamage(const wire::Graph& sound, std::mt19937& random, int rounds) {
  const std::string bytes = sound.SerializeAsString();
  for (int round = 0; round < rounds; ++round) {
    wire::Graph graph;
    // What is not protobuf ends before it comes here.
    if (!graph.ParseFromString(Damaged(bytes, random))) continue;
    const auto imported = ImportGraph(graph);
    if (!imported.ok()) {
      EXPECT_TRUE(ReasonOf(imported.status()).has_value()) << imported.status();
      continue;
    }
    EXPECT_TRUE(VerifyGraph(*imported).ok()) << VerifyGraph(*imported);
    const std::string text = PrintGraph(*imported);
    const auto again = ParseGraph(text);
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    EXPECT_EQ(PrintGraph(*again), text);
  }
}

TEST(ImportFuzz, DamagedGraphsAreRefusedOrSound) {
  std::mt19937 random(20260131);
  for (const char* file :
       {"mlp_layernorm_train", "mlp_dynamic_train", "gpt2_dynamic_infer",
        "resnet_infer", "foreach_adam"}) {
    const auto cases =
        ReadCorpusFile(std::string("tests/corpus/models/") + file + ".jsonl");
    ASSERT_TRUE(cases.ok()) << cases.status();
    for (const CorpusCase& test_case : *cases) {
      CheckDamage(test_case.graph, random, 400);
    }
  }
}

}  // namespace
}  // namespace kiln

// What holds for any graph, tried on random ones. Seeds are fixed.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "proto/base/status.h"
#include "proto/key/canonical_graph.h"
#include "proto/key/request_digest.h"
#include "tests/proto/key/sample_graph.h"

namespace kiln {
namespace {

using Random = std::mt19937_64;

int Below(Random& random, int limit) {
  return static_cast<int>(random() % static_cast<uint64_t>(limit));
}

// `inputs` inputs f32[s, 4], each s one of `symbols`, and nodes that read
// earlier values.
wire::Graph RandomGraph(Random& random, int symbols, int inputs, int nodes) {
  wire::Graph graph;
  for (int i = 0; i < symbols; ++i) {
    wire::Symbol* symbol = graph.add_symbols();
    symbol->set_name("s" + std::to_string(i));
    symbol->set_hint(1 + Below(random, 100));
    symbol->set_max(1000 + i);
  }
  std::vector<int> symbol_of_value;
  for (int i = 0; i < inputs; ++i) {
    symbol_of_value.push_back(Below(random, symbols));
    *graph.add_inputs()->mutable_tensor() = RowsOfFour(symbol_of_value.back());
  }
  for (int i = 0; i < nodes; ++i) {
    wire::Node* node = graph.add_nodes();
    node->set_op(Below(random, 2) == 0 ? "aten.relu.default"
                                       : "aten.neg.default");
    node->set_name("n" + std::to_string(i));
    const int read = Below(random, static_cast<int>(symbol_of_value.size()));
    node->add_args()->set_value(read);
    symbol_of_value.push_back(symbol_of_value[read]);
    *node->add_results() = RowsOfFour(symbol_of_value.back());
  }
  graph.add_outputs()->set_value(inputs + nodes - 1);
  return graph;
}

// The same graph under other names, its symbols declared in another order.
wire::Graph Renamed(const wire::Graph& graph, Random& random) {
  std::vector<int> place(graph.symbols_size());
  std::iota(place.begin(), place.end(), 0);
  std::shuffle(place.begin(), place.end(), random);
  wire::Graph other = graph;
  for (int i = 0; i < graph.symbols_size(); ++i) {
    *other.mutable_symbols(place[i]) = graph.symbols(i);
    other.mutable_symbols(place[i])->set_name("t" + std::to_string(random()));
  }
  const auto move = [&place](wire::TensorMeta& meta) {
    wire::SymInstruction& in = *meta.mutable_sizes(0)->mutable_code(0);
    in.set_value(place[in.value()]);
  };
  for (wire::Input& input : *other.mutable_inputs()) {
    input.set_name(std::to_string(random()));
    move(*input.mutable_tensor());
  }
  for (wire::Node& node : *other.mutable_nodes()) {
    node.set_name(std::to_string(random()));
    node.set_stack_trace("elsewhere\n");
    move(*node.mutable_results(0));
  }
  return other;
}

TEST(CanonicalGraphProperty, RenamingAndRedeclaringChangesNothing) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const wire::Graph graph =
        RandomGraph(random, 1 + Below(random, 5), 1 + Below(random, 5), 20);
    const auto a = CanonicalizeGraph(graph);
    const auto b = CanonicalizeGraph(Renamed(graph, random));
    ASSERT_TRUE(a.ok()) << a.status();
    ASSERT_TRUE(b.ok()) << b.status();
    EXPECT_EQ(a->digest, b->digest);
    EXPECT_EQ(a->graph.SerializeAsString(), b->graph.SerializeAsString());
    for (size_t i = 0; i < a->symbols.original_of.size(); ++i) {
      EXPECT_EQ(a->symbols.canonical_of[a->symbols.original_of[i]],
                static_cast<int>(i));
    }
  }
}

TEST(CanonicalGraphProperty, AnotherOperatorAnywhereChangesTheDigest) {
  Random random(2);
  for (int round = 0; round < 100; ++round) {
    wire::Graph graph = RandomGraph(random, 3, 3, 20);
    const auto before = CanonicalizeGraph(graph);
    graph.mutable_nodes(Below(random, 20))->set_op("aten.abs.default");
    EXPECT_NE(CanonicalizeGraph(graph)->digest, before->digest);
  }
}

// Bytes from outside: each gives a digest or a typed error, and nothing worse.
TEST(CanonicalGraphProperty, SpoiledBytesAreAnErrorAtWorst) {
  Random random(3);
  const std::string bytes = SampleRequest().SerializeAsString();
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string spoiled = bytes;
    for (int flips = 1 + Below(random, 3); flips > 0; --flips) {
      spoiled[Below(random, static_cast<int>(spoiled.size()))] ^=
          static_cast<char>(1 << Below(random, 8));
    }
    wire::CompileRequest request;
    if (!request.ParseFromString(spoiled)) continue;
    const auto canonical = CanonicalizeRequest(request);
    if (canonical.ok()) continue;
    ++refused;
    EXPECT_TRUE(ReasonOf(canonical.status()).has_value()) << canonical.status();
    EXPECT_EQ(canonical.status().message().find('\n'), absl::string_view::npos);
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace kiln

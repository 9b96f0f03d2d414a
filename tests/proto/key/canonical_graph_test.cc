#include "proto/key/canonical_graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "proto/base/status.h"
#include "tests/proto/key/sample_graph.h"

namespace kiln {
namespace {

CanonicalGraph Canonical(const wire::Graph& graph) {
  auto canonical = CanonicalizeGraph(graph);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  return canonical.ok() ? *std::move(canonical) : CanonicalGraph();
}

TEST(CanonicalGraph, NamesAndStackTracesChangeNothing) {
  wire::Graph renamed = SampleGraph();
  renamed.set_name("another");
  renamed.mutable_inputs(0)->set_name("y");
  renamed.mutable_symbols(1)->set_name("N");
  renamed.mutable_nodes(0)->set_name("z");
  renamed.mutable_nodes(0)->clear_stack_trace();
  const CanonicalGraph a = Canonical(SampleGraph());
  const CanonicalGraph b = Canonical(renamed);
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_EQ(a.graph.SerializeAsString(), b.graph.SerializeAsString());
}

TEST(CanonicalGraph, WordsThatKernelsAreNamedByChangeIt) {
  wire::Graph graph = SampleGraph();
  for (int i = 0; i < graph.nodes_size(); ++i) graph.add_kernel_words("linear");
  const CanonicalGraph named = Canonical(graph);
  EXPECT_EQ(named.graph.kernel_words(1), "linear");
  EXPECT_NE(named.digest, Canonical(SampleGraph()).digest);
  graph.set_kernel_words(1, "relu");
  EXPECT_NE(named.digest, Canonical(graph).digest);
}

TEST(CanonicalGraph, SymbolsAreNumberedAsTheyAppearAndUnusedOnesDropped) {
  const CanonicalGraph canonical = Canonical(SampleGraph());
  ASSERT_EQ(canonical.graph.symbols_size(), 1);
  EXPECT_EQ(canonical.symbols.original_of, (std::vector<int>{1}));
  EXPECT_EQ(canonical.symbols.canonical_of, (std::vector<int>{-1, 0, -1}));
  EXPECT_EQ(canonical.graph.nodes(1).results(0).sizes(0).code(0).value(), 0);

  wire::Graph reordered = SampleGraph();
  reordered.mutable_symbols()->SwapElements(0, 1);
  *reordered.mutable_inputs(0)->mutable_tensor() = RowsOfFour(0);
  *reordered.mutable_nodes(0)->mutable_results(0) = RowsOfFour(0);
  *reordered.mutable_nodes(1)->mutable_results(0) = RowsOfFour(0);
  EXPECT_EQ(Canonical(reordered).digest, canonical.digest);
}

TEST(CanonicalGraph, ACanonicalGraphIsItsOwnCanonicalForm) {
  const CanonicalGraph once = Canonical(SampleGraph());
  const CanonicalGraph twice = Canonical(once.graph);
  EXPECT_EQ(once.digest, twice.digest);
  EXPECT_EQ(once.graph.SerializeAsString(), twice.graph.SerializeAsString());
}

TEST(CanonicalGraph, SpellingsOfOneThingAreOneThing) {
  const Digest digest = Canonical(SampleGraph()).digest;
  wire::Graph graph = SampleGraph();
  wire::SymExpr& four =
      *graph.mutable_inputs(0)->mutable_tensor()->mutable_sizes(1);
  four.clear_value();
  wire::SymInstruction* in = four.add_code();
  in->set_op(wire::SYM_OP_CONSTANT);
  in->set_value(4);
  graph.mutable_inputs(0)->mutable_tensor()->mutable_storage_offset();
  graph.mutable_inputs(0)->set_alignment_bytes(4);
  EXPECT_EQ(Canonical(graph).digest, digest);
}

TEST(CanonicalGraph, KeywordArgumentsHaveNoOrder) {
  wire::Graph graph = SampleGraph();
  wire::NamedArgument* other = graph.mutable_nodes(0)->add_kwargs();
  other->set_name("aaa");
  other->mutable_value()->set_bool_value(true);
  wire::Graph turned = graph;
  turned.mutable_nodes(0)->mutable_kwargs()->SwapElements(0, 1);
  EXPECT_EQ(Canonical(graph).digest, Canonical(turned).digest);
}

TEST(CanonicalGraph, HintsArriveAsTheirClassAndAreNotInTheDigest) {
  wire::Graph small = SampleGraph();
  small.mutable_symbols(1)->set_hint(100);
  const CanonicalGraph canonical = Canonical(small);
  EXPECT_EQ(canonical.graph.symbols(0).hint(), 128);
  EXPECT_EQ(canonical.digest, Canonical(SampleGraph()).digest);
}

TEST(HintClass, IsAPowerOfTwoWithinTheBounds) {
  EXPECT_EQ(HintClass(0, 0, 0), 0);
  EXPECT_EQ(HintClass(1, 0, 0), 1);
  EXPECT_EQ(HintClass(9, 0, 0), 16);
  EXPECT_EQ(HintClass(16, 0, 0), 16);
  EXPECT_EQ(HintClass(9, 1, 12), 12);
  EXPECT_EQ(HintClass(-5, 0, 0), 0);
  EXPECT_EQ(HintClass(INT64_MAX, 0, 0), int64_t{1} << 61);
}

// What the sample becomes by a change that means something.
TEST(CanonicalGraph, WhateverMeansSomethingChangesTheDigest) {
  const Digest digest = Canonical(SampleGraph()).digest;
  const std::function<void(wire::Graph&)> changes[] = {
      [](wire::Graph& g) { g.mutable_nodes(0)->set_op("aten.sub.Tensor"); },
      [](wire::Graph& g) { g.mutable_nodes(1)->mutable_args(0)->set_value(0); },
      [](wire::Graph& g) { g.mutable_outputs(0)->set_value(1); },
      [](wire::Graph& g) {
        g.mutable_nodes(0)->mutable_kwargs(0)->mutable_value()->set_int_value(
            2);
      },
      [](wire::Graph& g) { g.mutable_symbols(1)->set_max(100); },
      [](wire::Graph& g) { g.mutable_inputs(0)->set_alignment_bytes(16); },
      [](wire::Graph& g) {
        g.mutable_inputs(0)->mutable_tensor()->set_dtype(wire::DTYPE_FLOAT16);
      },
      [](wire::Graph& g) { *g.mutable_outputs(0)->add_strides() = Number(1); },
      [](wire::Graph& g) { g.add_outputs()->mutable_none(); },
  };
  int number = 0;
  for (const auto& change : changes) {
    wire::Graph graph = SampleGraph();
    change(graph);
    EXPECT_NE(Canonical(graph).digest, digest) << number;
    ++number;
  }
}

struct BadGraph {
  ErrorReason reason;
  std::string says;  // part of the message
  std::function<void(wire::Graph&)> spoil;
};

void ExpectRefused(const std::vector<BadGraph>& rows) {
  for (const BadGraph& row : rows) {
    wire::Graph graph = SampleGraph();
    row.spoil(graph);
    const absl::Status status = CanonicalizeGraph(graph).status();
    EXPECT_EQ(ReasonOf(status), row.reason) << row.says << ": " << status;
    EXPECT_NE(status.message().find(row.says), absl::string_view::npos)
        << status << " does not say " << row.says;
  }
}

TEST(CanonicalGraph, MalformedGraphsAreRefusedByName) {
  const auto m = ErrorReason::kMalformedGraph;
  ExpectRefused({
      {m, "node 0 %sum (aten.add.Tensor): reads value 1",  // a cycle
       [](auto& g) { g.mutable_nodes(0)->mutable_args(0)->set_value(1); }},
      {m, "output 0: value 3 of 3",
       [](auto& g) { g.mutable_outputs(0)->set_value(3); }},
      {m, "input 0: 2 sizes and 1 strides",
       [](auto& g) {
         g.mutable_inputs(0)->mutable_tensor()->mutable_strides()->RemoveLast();
       }},
      {m, "input 0: size -1",
       [](auto& g) {
         g.mutable_inputs(0)->mutable_tensor()->mutable_sizes(1)->set_value(-1);
       }},
      {m, "symbol 0 (never): no input has it alone",
       [](auto& g) {
         *g.mutable_nodes(0)->mutable_results(0)->mutable_sizes(0) =
             SymbolExpr(0);
       }},
      {m, "symbol 1 (rows): at least 5 and at most 4",
       [](auto& g) {
         g.mutable_symbols(1)->set_min(5);
         g.mutable_symbols(1)->set_max(4);
       }},
      {m, "symbol 7 of 3",
       [](auto& g) { *g.add_outputs()->mutable_sym() = SymbolExpr(7); }},
      {m, "node 0 %a\\nb (aten.add.Tensor): name \"a\\nb\" holds a control",
       [](auto& g) { g.mutable_nodes(0)->set_name("a\nb"); }},
      {m, "no operator", [](auto& g) { g.mutable_nodes(0)->clear_op(); }},
      {m, "argument \"alpha\" is given twice",
       [](auto& g) {
         *g.mutable_nodes(0)->add_kwargs() = g.nodes(0).kwargs(0);
       }},
      {m, "an argument of no kind",
       [](auto& g) { g.mutable_nodes(0)->add_args(); }},
      {m, "output 0: neither", [](auto& g) { g.mutable_outputs(0)->Clear(); }},
      {m, "input 1: neither", [](auto& g) { g.add_inputs(); }},
      {m, "alignment of 3",
       [](auto& g) { g.mutable_inputs(0)->set_alignment_bytes(3); }},
      {m, "constant 0: 3 bytes for 1 elements of f32",
       [](auto& g) {
         g.add_constants()->set_data("abc");
         g.mutable_constants(0)->mutable_tensor()->set_dtype(
             wire::DTYPE_FLOAT32);
       }},
      {m, "1 words of kernels for",
       [](auto& g) { g.add_kernel_words("linear"); }},
      {m, "kernel word 0: name \"\\n\" holds a control character",
       [](auto& g) {
         for (int i = 0; i < g.nodes_size(); ++i) g.add_kernel_words("\n");
       }},
      {m, "field 99 unknown to this build",
       [](auto& g) {
         wire::Node* node = g.mutable_nodes(1);
         node->GetReflection()->MutableUnknownFields(node)->AddVarint(99, 1);
       }},
  });
}

wire::Argument NestedList(int depth) {
  wire::Argument argument;
  argument.mutable_list();
  for (int i = 0; i < depth; ++i) {
    wire::Argument outer;
    *outer.mutable_list()->add_items() = argument;
    argument = outer;
  }
  return argument;
}

TEST(CanonicalGraph, WhatIsTooLargeIsRefusedByName) {
  const auto large = ErrorReason::kTooLarge;
  ExpectRefused({
      {large, "node 0 %xxx",
       [](auto& g) {
         g.mutable_nodes(0)->set_name(std::string(1 << 20, 'x'));
       }},
      {large, "input 0: more than",
       [](auto& g) {
         g.mutable_inputs(0)->mutable_tensor()->mutable_sizes(1)->set_value(
             int64_t{1} << 40);
       }},
      {large, "bytes of stack trace",
       [](auto& g) {
         g.mutable_nodes(0)->set_stack_trace(std::string(1 << 20, 'x'));
       }},
      {large, "constant 0: 1048577 bytes",
       [](auto& g) {
         g.add_constants()->set_data(std::string((1 << 20) + 1, 'x'));
       }},
      {large, "lists nest deeper",
       [](auto& g) { *g.mutable_nodes(0)->add_args() = NestedList(40); }},
      {large, "dimensions",
       [](auto& g) {
         for (int i = 0; i < 100; ++i) {
           g.mutable_nodes(0)->mutable_results(0)->add_sizes();
         }
       }},
      {ErrorReason::kUnsupportedOp, "a constant by digest",
       [](auto& g) { g.add_constants()->set_digest("d"); }},
  });
}

TEST(CanonicalGraph, AnEmptyTensorMayHaveAnyOtherSizes) {
  wire::Graph graph = SampleGraph();
  wire::TensorMeta& meta = *graph.mutable_inputs(0)->mutable_tensor();
  *meta.add_sizes() = Number(int64_t{1} << 50);
  *meta.add_strides() = Number(1);
  *meta.add_sizes() = Number(0);
  *meta.add_strides() = Number(1);
  EXPECT_TRUE(CanonicalizeGraph(graph).ok());
}

}  // namespace
}  // namespace kiln

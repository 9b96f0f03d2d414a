#include "compiler/graph/graph_import.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph/graph_verifier.h"
#include "compiler/graph/refused_nodes.h"
#include "proto/base/refusal.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

void SetTensor(wire::TensorMeta& meta, std::initializer_list<int64_t> sizes) {
  meta.set_dtype(wire::DTYPE_FLOAT32);
  int64_t stride = 1;
  for (const int64_t size : sizes) meta.add_sizes()->set_value(size);
  for (int d = 0; d < meta.sizes_size(); ++d) meta.add_strides();
  for (int d = meta.sizes_size() - 1; d >= 0; --d) {
    meta.mutable_strides(d)->set_value(stride);
    stride *= meta.sizes(d).value();
  }
}

wire::SymExpr Symbol(int64_t number) {
  wire::SymExpr e;
  wire::SymInstruction* step = e.add_code();
  step->set_op(wire::SYM_OP_SYMBOL);
  step->set_value(number);
  return e;
}

// y = x + x for x: f32[4, 8].
wire::Graph Sound() {
  wire::Graph graph;
  graph.set_name("g");
  graph.add_inputs()->set_name("x");
  SetTensor(*graph.mutable_inputs(0)->mutable_tensor(), {4, 8});
  wire::Node* node = graph.add_nodes();
  node->set_name("y");
  node->set_op("aten.add.Tensor");
  node->add_args()->set_value(0);
  node->add_args()->set_value(0);
  SetTensor(*node->add_results(), {4, 8});
  graph.add_outputs()->set_value(1);
  return graph;
}

// `part` is in the message.
void ExpectRefused(const wire::Graph& graph, ErrorReason reason,
                   absl::string_view part) {
  const auto imported = ImportGraph(graph);
  ASSERT_FALSE(imported.ok()) << part;
  EXPECT_EQ(ReasonOf(imported.status()), reason) << imported.status();
  EXPECT_TRUE(absl::StrContains(imported.status().message(), part))
      << imported.status();
  EXPECT_LT(imported.status().message().size(), 500u);
}

constexpr ErrorReason kMalformed = ErrorReason::kMalformedGraph;
constexpr ErrorReason kUnsupported = ErrorReason::kUnsupportedOp;
constexpr ErrorReason kTooLarge = ErrorReason::kTooLarge;

TEST(GraphImport, ANodeIsCalledAsTheClientsProgramHasIt) {
  wire::Graph wire = Sound();
  auto graph = ImportGraph(wire);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->client_operators, std::vector<std::string>{"add"});
  wire.mutable_nodes(0)->set_original_op("aten.native_layer_norm.default");
  graph = ImportGraph(wire);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->client_operators,
            std::vector<std::string>{"native_layer_norm"});
  wire.mutable_nodes(0)->set_original_op("of no \"letters\"");
  graph = ImportGraph(wire);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->client_operators,
            std::vector<std::string>{"of_no__letters_"});
  EXPECT_TRUE(graph->client_words.empty());
  wire.add_kernel_words("layer_norm");
  graph = ImportGraph(wire);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->client_words, std::vector<std::string>{"layer_norm"});
}

TEST(GraphImport, ASoundGraphComesInSound) {
  const auto graph = ImportGraph(Sound());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(VerifyGraph(*graph).ok());
  EXPECT_EQ(PrintGraph(*graph),
            "graph @g()(%x: f32[4, 8] align 4) -> (%y) {\n"
            "  %y = add.Tensor(%x, %x) : f32[4, 8]\n}\n");
}

TEST(GraphImport, ValuesAreDefinedBeforeTheyAreUsed) {
  wire::Graph graph = Sound();
  graph.mutable_nodes(0)->mutable_args(1)->set_value(1);  // itself: a cycle
  ExpectRefused(graph, kMalformed,
                "node %y: value 1 is used before it is defined");
  graph = Sound();
  graph.mutable_outputs(0)->set_value(77);
  ExpectRefused(graph, kMalformed, "output 0: value 77 is not defined");
}

TEST(GraphImport, OperatorsAndTheirArgumentsAreChecked) {
  wire::Graph graph = Sound();
  graph.mutable_nodes(0)->set_op("aten.ad.Tensor");
  ExpectRefused(graph, kUnsupported,
                "operator aten.ad.Tensor is not known; near: aten.add.Tensor");
  graph = Sound();
  graph.mutable_nodes(0)->mutable_args()->RemoveLast();
  ExpectRefused(graph, kMalformed, "argument other is missing");
  graph = Sound();
  for (int i = 0; i < 5; ++i) {
    graph.mutable_nodes(0)->add_args()->set_int_value(1);
  }
  ExpectRefused(graph, kMalformed, "7 arguments, expected at most 3");
  graph = Sound();
  graph.mutable_nodes(0)->mutable_args(1)->set_string_value("x");
  ExpectRefused(graph, kMalformed, "argument other is of a wrong type");
  graph = Sound();
  graph.mutable_nodes(0)->mutable_args(1)->Clear();
  ExpectRefused(graph, kMalformed, "says nothing");
  graph = Sound();
  graph.mutable_nodes(0)->add_kwargs()->set_name("beta");
  graph.mutable_nodes(0)->mutable_kwargs(0)->mutable_value()->set_int_value(1);
  ExpectRefused(graph, kMalformed, "argument beta is not one of");
}

// A chain: each node is `op` of the value before it, and declares f32[4, 8].
wire::Graph Chain(const std::vector<std::string>& ops) {
  wire::Graph graph = Sound();
  graph.clear_nodes();
  for (const std::string& op : ops) {
    wire::Node* node = graph.add_nodes();
    node->set_op(op);
    node->add_args()->set_value(graph.nodes_size() - 1);
    SetTensor(*node->add_results(), {4, 8});
  }
  return graph;
}

TEST(GraphImport, AllNodesThatAreNotCompiledAreNamedInOneError) {
  const wire::Graph graph =
      Chain({"aten.relu.default", "qqqqqqqq.one", "aten.sin.default",
             "qqqqqqqq.two", "qqqqqqqq.one", "aten.cos.default"});
  const absl::Status status = ImportGraph(graph).status();
  EXPECT_EQ(ReasonOf(status), kUnsupported);
  EXPECT_EQ(std::string(status.message()),
            "node #1, node #4: operator qqqqqqqq.one is not known | "
            "node #3: operator qqqqqqqq.two is not known");
  const std::string one = "operator qqqqqqqq.one is not known";
  const std::string two = "operator qqqqqqqq.two is not known";
  EXPECT_EQ(RefusalsOf(status),
            (Refusals{{{1, "qqqqqqqq.one", kUnsupported, one},
                       {3, "qqqqqqqq.two", kUnsupported, two},
                       {4, "qqqqqqqq.one", kUnsupported, one}},
                      false}));
}

TEST(GraphImport, ANodeThatIsNotAsDeclaredIsRefusedBesideTheOthers) {
  wire::Graph graph = Chain(
      {"qqqqqqqq.one", "aten.sin.default", "qqqqqqqq.two", "aten.sin.default"});
  graph.mutable_nodes(1)->clear_args();
  const Refusals found = RefusalsOf(ImportGraph(graph).status());
  ASSERT_EQ(found.refusals.size(), 3u);
  EXPECT_EQ(found.refusals[1].node, 1u);
  EXPECT_EQ(found.refusals[1].op, "aten.sin.default");
  EXPECT_EQ(found.refusals[1].reason, kMalformed);
  EXPECT_FALSE(found.more);
}

TEST(GraphImport, RefusedNodesAreToldOfUpToWhereMetasAreKnown) {
  // Without results that the client declares, what follows has no metas.
  wire::Graph graph = Chain({"qqqqqqqq.one", "qqqqqqqq.two"});
  graph.mutable_nodes(0)->clear_results();
  const absl::Status status = ImportGraph(graph).status();
  EXPECT_EQ(std::string(status.message()),
            "node #0: operator qqqqqqqq.one is not known");
  EXPECT_EQ(RefusalsOf(status).refusals.size(), 1u);
  EXPECT_TRUE(RefusalsOf(status).more);
}

TEST(GraphImport, AMessageOfManyRefusedNodesIsBoundedAndCountsTheRest) {
  const absl::Status same =
      ImportGraph(Chain(std::vector<std::string>(2000, "qqqqqqqq.one")))
          .status();
  EXPECT_LE(same.message().size(), RefusedNodes::kMostMessageBytes);
  EXPECT_EQ(RefusalsOf(same).refusals.size(), 2000u);
  EXPECT_FALSE(RefusalsOf(same).more);
  EXPECT_TRUE(absl::StartsWith(same.message(), "node #0, node #1, node #2,"));
  EXPECT_TRUE(absl::EndsWith(same.message(), " more")) << same;
  std::vector<std::string> ops;
  for (int i = 0; i < 5000; ++i) {
    ops.push_back(absl::StrCat("qqq.", i, ".", std::string(80, 'q')));
  }
  const absl::Status different = ImportGraph(Chain(ops)).status();
  EXPECT_LE(different.message().size(), RefusedNodes::kMostMessageBytes);
  EXPECT_TRUE(absl::EndsWith(different.message(), " more")) << different;
  EXPECT_GT(RefusalsOf(different).refusals.size(), 1000u);
  EXPECT_TRUE(RefusalsOf(different).more);
}

TEST(GraphImport, WhatTheClientBelievesMustAgreeButForStrides) {
  wire::Graph graph = Sound();
  wire::TensorMeta* result = graph.mutable_nodes(0)->mutable_results(0);
  result->mutable_strides(0)->set_value(1);
  result->mutable_strides(1)->set_value(4);
  EXPECT_TRUE(ImportGraph(graph).ok());
  result->mutable_sizes(1)->set_value(9);
  ExpectRefused(graph, kMalformed,
                "result 0: found f32[4, 9] strides [1, 4], inference gives "
                "f32[4, 8]");
  graph = Sound();
  graph.mutable_nodes(0)->mutable_results(0)->set_dtype(wire::DTYPE_INT64);
  ExpectRefused(graph, kMalformed, "found i64[4, 8]");
  graph = Sound();
  SetTensor(*graph.mutable_nodes(0)->add_results(), {1});
  ExpectRefused(graph, kMalformed, "found 2 results, expected 1");
}

TEST(GraphImport, AsStridedIsOfStridesThatInferenceConfirms) {
  wire::Graph graph = Sound();
  wire::Node* node = graph.add_nodes();
  node->set_name("z");
  node->set_op("aten.as_strided.default");
  node->add_args()->set_value(1);
  for (const int64_t of_one_dimension : {32, 1}) {
    node->add_args()->mutable_list()->add_items()->set_int_value(
        of_one_dimension);
  }
  SetTensor(*node->add_results(), {32});
  EXPECT_TRUE(ImportGraph(graph).ok()) << ImportGraph(graph).status();
  wire::TensorMeta* result = graph.mutable_nodes(0)->mutable_results(0);
  result->mutable_strides(0)->set_value(1);
  result->mutable_strides(1)->set_value(4);
  ExpectRefused(graph, kUnsupported,
                "aten.as_strided.default: of a tensor with strides [1, 4], "
                "where inference gives f32[4, 8]");
}

TEST(GraphImport, TensorsHaveKnownDTypesAndBoundedSizes) {
  wire::Graph graph = Sound();
  graph.mutable_inputs(0)->mutable_tensor()->set_dtype(wire::DTYPE_COMPLEX64);
  ExpectRefused(graph, kUnsupported, "input 0: dtype complex64");
  graph = Sound();
  graph.mutable_inputs(0)->mutable_tensor()->clear_dtype();
  ExpectRefused(graph, kMalformed, "input 0: dtype number 0");
  graph = Sound();
  wire::TensorMeta* meta = graph.mutable_inputs(0)->mutable_tensor();
  meta->mutable_sizes(0)->set_value(int64_t{1} << 20);
  meta->mutable_sizes(1)->set_value(int64_t{1} << 20);
  ExpectRefused(graph, kTooLarge, "expected less than 2^40 elements");
  meta->mutable_sizes(0)->set_value(int64_t{1} << 62);
  meta->mutable_sizes(1)->set_value(int64_t{1} << 62);
  ExpectRefused(graph, kTooLarge, "expected less than 2^40 elements");
  meta->mutable_sizes(0)->set_value(-1);
  ExpectRefused(graph, kMalformed, "expected 0 or more");
  graph = Sound();
  graph.mutable_inputs(0)->mutable_tensor()->mutable_strides()->RemoveLast();
  ExpectRefused(graph, kMalformed, "2 sizes and 1 strides");
  // Small inputs, a large result.
  graph = Sound();
  wire::Node* node = graph.mutable_nodes(0);
  node->clear_results();
  node->set_op("aten.expand.default");
  node->mutable_args(1)->mutable_list();
  for (const int64_t n : {int64_t{1} << 40, int64_t{4}, int64_t{8}}) {
    node->mutable_args(1)->mutable_list()->add_items()->set_int_value(n);
  }
  ExpectRefused(graph, kTooLarge, "aten.expand.default: result");
}

TEST(GraphImport, SymbolsHaveSourcesAndHintsWithinBounds) {
  wire::Graph graph = Sound();
  graph.add_symbols()->set_hint(4);
  ExpectRefused(graph, kMalformed, "symbol 0: no input is it");
  *graph.mutable_inputs(0)->mutable_tensor()->mutable_sizes(0) = Symbol(0);
  const auto sound = ImportGraph(graph);
  ASSERT_TRUE(sound.ok()) << sound.status();
  EXPECT_EQ(ToText(sound->meta(ValueId{1})), "f32[s0, 8]");
  EXPECT_EQ(sound->shapes.symbols[0].range,
            (ValueRange{0, (int64_t{1} << 62) - 1}));

  graph.mutable_symbols(0)->set_min(8);
  graph.mutable_symbols(0)->set_max(9);
  ExpectRefused(graph, kMalformed, "symbol 0: hint 4 in [8, 9]");
  graph.mutable_symbols(0)->set_min(0);
  *graph.mutable_inputs(0)->mutable_tensor()->mutable_sizes(0) = Symbol(3);
  ExpectRefused(graph, kMalformed, "symbol number 3, expected below 1");
}

TEST(GraphImport, ASymbolIsReadFromAnOffsetOnlyWhereNothingElseIsIt) {
  wire::Graph graph = Sound();
  graph.add_symbols()->set_hint(4);
  *graph.mutable_inputs(0)->mutable_tensor()->mutable_storage_offset() =
      Symbol(0);
  auto imported = ImportGraph(graph);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->shapes.symbols[0].source.kind,
            SymbolSource::Kind::kOffset);

  *graph.add_inputs()->mutable_scalar() = Symbol(0);
  graph.mutable_outputs(0)->set_value(2);
  imported = ImportGraph(graph);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->shapes.symbols[0].source.kind,
            SymbolSource::Kind::kScalar);
  EXPECT_EQ(imported->shapes.symbols[0].source.input, 1);
}

TEST(GraphImport, AForbiddenGuardIsDecidedAgainst) {
  // y = x[:, 0:s0] for x: f32[s0, s1].
  wire::Graph graph = Sound();
  graph.add_symbols()->set_hint(8);
  graph.add_symbols()->set_hint(8);
  wire::TensorMeta* x = graph.mutable_inputs(0)->mutable_tensor();
  *x->mutable_sizes(0) = Symbol(0);
  *x->mutable_sizes(1) = Symbol(1);
  *x->mutable_strides(0) = Symbol(1);
  wire::Node* node = graph.mutable_nodes(0);
  node->clear_results();
  node->set_op("aten.slice.Tensor");
  node->mutable_args(1)->set_int_value(1);
  node->add_args()->set_int_value(0);
  *node->add_args()->mutable_sym() = Symbol(0);
  const auto by_classes = ImportGraph(graph);
  ASSERT_TRUE(by_classes.ok()) << by_classes.status();
  EXPECT_EQ(ToText(by_classes->meta(ValueId{1}).sizes), "[s0, s0]");

  wire::GuardSet forbidden;
  wire::SymExpr* broken = forbidden.add_symbols()->mutable_condition();
  broken->MergeFrom(Symbol(0));
  broken->MergeFrom(Symbol(1));
  broken->add_code()->set_op(wire::SYM_OP_LE);
  EXPECT_EQ(ReasonOf(ImportGraph(graph, forbidden).status()), kMalformed)
      << "the hints satisfy what is forbidden";
  graph.mutable_symbols(1)->set_hint(5);
  const auto by_sizes = ImportGraph(graph, forbidden);
  ASSERT_TRUE(by_sizes.ok()) << by_sizes.status();
  EXPECT_EQ(ToText(by_sizes->meta(ValueId{1}).sizes), "[s0, s1]");
  ASSERT_GE(by_sizes->shapes.guards().size(), 1u);
  EXPECT_EQ(by_sizes->shapes.guards()[0],
            (Guard{GuardOp::kLt, SymExpr::Symbol(1), SymExpr::Symbol(0), ""}));
}

TEST(GraphImport, ExpressionsAreChecked) {
  wire::Graph graph = Sound();
  graph.add_symbols()->set_hint(4);
  wire::SymExpr* size =
      graph.mutable_inputs(0)->mutable_tensor()->mutable_sizes(0);
  *size = Symbol(0);
  size->add_code()->set_op(wire::SYM_OP_ADD);
  ExpectRefused(graph, kMalformed, "lacks an operand");
  size->mutable_code(1)->set_op(wire::SYM_OP_CONSTANT);
  ExpectRefused(graph, kMalformed, "leaves several values");
  size->add_code()->set_op(wire::SYM_OP_MOD);
  ExpectRefused(graph, kMalformed, "divides by 0");
  size->mutable_code(2)->set_op(wire::SYM_OP_LE);
  ExpectRefused(graph, kUnsupported, "expression with operation");
}

TEST(GraphImport, NamesAreShortAndPrintable) {
  wire::Graph graph = Sound();
  graph.mutable_nodes(0)->set_name("a\nb");
  ExpectRefused(graph, kMalformed, "name 'a\\nb' with a control character");
  graph.mutable_nodes(0)->set_name(std::string(1 << 20, 'n'));
  ExpectRefused(graph, kTooLarge, "of 1048576 bytes, expected at most 1024");
  graph = Sound();
  graph.mutable_nodes(0)->set_op(std::string(1 << 20, 'n'));
  ExpectRefused(graph, kTooLarge, "of 1048576 bytes");
  graph = Sound();
  graph.set_name("a\tb");
  ExpectRefused(graph, kMalformed, "graph: name");
}

TEST(GraphImport, ConstantsCarryAsManyBytesAsTheirMetaSays) {
  wire::Graph graph = Sound();
  wire::Constant* constant = graph.add_constants();
  SetTensor(*constant->mutable_tensor(), {2});
  graph.mutable_outputs(0)->set_value(2);
  ExpectRefused(graph, kMalformed, "constant 0: 0 bytes of data for f32[2]");
  constant->set_digest("somewhere");
  ExpectRefused(graph, kUnsupported, "constant 0: data that travels apart");
  constant->set_data("12345678");
  // Value 1 is the constant, the sum is value 2.
  EXPECT_TRUE(ImportGraph(graph).ok()) << ImportGraph(graph).status();
  constant->mutable_tensor()->mutable_sizes(0)->set_value(1 << 20);
  ExpectRefused(graph, kTooLarge, "expected at most 1048576");
}

}  // namespace
}  // namespace kiln

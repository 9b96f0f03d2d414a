#include "proto/corpus/corpus_case.h"

#include <cmath>
#include <fstream>
#include <string>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_bytes.h"
#include "proto/corpus/corpus_compare.h"
#include "proto/corpus/corpus_random.h"

namespace kiln {
namespace {

std::vector<CorpusCase> ReadModel(const std::string& name) {
  auto cases = ReadCorpusFile("tests/corpus/models/" + name + ".jsonl");
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.ok() ? *std::move(cases) : std::vector<CorpusCase>();
}

// One case without data whose only node is `node`; its input is f32[4].
CorpusCase ReadOneNode(const std::string& node) {
  const std::string path = testing::TempDir() + "/one.jsonl";
  const std::string meta =
      R"({"shape": [4], "stride": [1], "dtype": "float32", "device": "cpu",)"
      R"( "storage_offset": 0})";
  std::ofstream(path)
      << R"({"name": "one", "kind": "op", "nodes": [{"name": "x", )"
      << R"("op": "placeholder", "target": "x", "args": [], "kwargs": {}, )"
      << R"("meta": )" << meta << "}, "
      << absl::StrReplaceAll(node, {{"\n", " "}})
      << R"(, {"name": "output", "op": "output", "args": [[{"node": "y"}]]}],)"
      << R"( "constants": {}, "inputs": [)" << meta << "]}\n";
  auto cases = ReadCorpusFile(path);
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.ok() ? cases->at(0) : CorpusCase();
}

TEST(CorpusCase, ReadsEveryModel) {
  const auto files = ListCorpusFiles("tests/corpus/models");
  ASSERT_TRUE(files.ok()) << files.status();
  int cases_read = 0;
  for (const std::string& file : *files) {
    const auto cases = ReadCorpusFile(file);
    ASSERT_TRUE(cases.ok()) << cases.status();
    for (const CorpusCase& c : *cases) {
      EXPECT_TRUE(c.readable.ok()) << c.name << ": " << c.readable;
      EXPECT_TRUE(c.has_data) << c.name;
      EXPECT_EQ(c.inputs.size(), c.graph.inputs_size()) << c.name;
      EXPECT_EQ(c.outputs.size(), c.graph.outputs_size()) << c.name;
      ++cases_read;
    }
  }
  EXPECT_EQ(cases_read, 75);
}

TEST(CorpusCase, NumbersInputsThenConstantsThenResults) {
  const auto cases = ReadModel("linear_cross_entropy_train");
  ASSERT_FALSE(cases.empty());
  const wire::Graph& graph = cases[0].graph;
  const uint32_t first_result = graph.inputs_size() + graph.constants_size();
  uint32_t defined = first_result;
  for (const wire::Node& node : graph.nodes()) {
    for (const wire::Argument& arg : node.args()) {
      if (arg.kind_case() == wire::Argument::kValue) {
        EXPECT_LT(arg.value(), defined) << node.name();
      }
    }
    defined += node.results_size();
  }
  for (const wire::Output& output : graph.outputs()) {
    if (output.kind_case() == wire::Output::kValue) {
      EXPECT_LT(output.value(), defined);
    }
  }
}

TEST(CorpusCase, AnInputHasTheStridesOfTheTensorGiven) {
  const auto cases = ReadModel("bert_train");
  ASSERT_EQ(cases.size(), 2);
  for (const CorpusCase& c : cases) {
    for (int i = 0; i < c.graph.inputs_size(); ++i) {
      const auto* tensor = std::get_if<CorpusTensor>(&c.inputs[i]);
      if (tensor == nullptr) continue;
      for (size_t d = 0; d < tensor->layout.strides.size(); ++d) {
        EXPECT_EQ(
            c.graph.inputs(i).tensor().strides(static_cast<int>(d)).value(),
            tensor->layout.strides[d])
            << c.name << " input " << i;
      }
    }
  }
}

TEST(CorpusCase, ADynamicPairIsOneGraphWithTwoSizes) {
  const auto cases = ReadModel("gpt2_dynamic_infer");
  ASSERT_EQ(cases.size(), 2);
  EXPECT_EQ(BaseName(cases[1]), cases[0].name);
  wire::Graph other = cases[1].graph;
  other.set_name(cases[0].graph.name());
  EXPECT_EQ(other.SerializeAsString(), cases[0].graph.SerializeAsString());
  EXPECT_EQ(cases[0].graph.symbols_size(), 2);
  EXPECT_EQ(cases[0].graph.symbols(1).hint(), 24);
  EXPECT_EQ(std::get<int64_t>(cases[1].inputs[1]), 17);
}

TEST(CorpusCase, NamesWhatTheWireCannotSay) {
  const CorpusCase slice = ReadOneNode(
      R"({"name": "y", "op": "call_function", "target": "aten.index.Tensor",
          "args": [{"node": "x"}, {"slice": [0, 2, 1]}], "kwargs": {},
          "meta": null})");
  EXPECT_EQ(ReasonOf(slice.readable), ErrorReason::kUnsupportedOp);
  EXPECT_EQ(slice.readable.message(),
            "node y: aten.index.Tensor: argument of kind slice");

  const CorpusCase builtin = ReadOneNode(
      R"({"name": "y", "op": "call_function",
          "target": "<built-in function pow>", "args": [2, 3], "kwargs": {},
          "meta": null})");
  EXPECT_EQ(ReasonOf(builtin.readable), ErrorReason::kUnsupportedOp);
}

TEST(CorpusCase, AMissingFieldIsMalformedAndNoCrash) {
  const CorpusCase no_args = ReadOneNode(
      R"({"name": "y", "op": "call_function", "target": "aten.relu.default",
          "kwargs": {}, "meta": null})");
  EXPECT_EQ(ReasonOf(no_args.readable), ErrorReason::kMalformedGraph);
}

TEST(CorpusCase, WithoutDataInputsKeepTheirRanges) {
  const auto cases = ReadCorpusFile("tests/corpus/seeds/seeds.jsonl");
  ASSERT_TRUE(cases.ok()) << cases.status();
  const CorpusCase& scatter = cases->at(0);
  EXPECT_FALSE(scatter.has_data);
  EXPECT_FALSE(scatter.expect.empty());
  const auto inputs = RandomInputs(scatter, 1);
  ASSERT_EQ(inputs.size(), scatter.specs.size());
  const auto& spec = std::get<CorpusInputSpec>(scatter.specs[0]);
  ASSERT_TRUE(spec.int_range.has_value());
  const auto& indices = std::get<CorpusTensor>(inputs[0]);
  for (int64_t i = 0; i < NumElements(indices.layout.sizes); ++i) {
    const double index = ElementAsDouble(DType::kInt64, indices.data() + 8 * i);
    EXPECT_GE(index, spec.int_range->first);
    EXPECT_LE(index, spec.int_range->second);
  }
}

TEST(CorpusCompare, ATensorEqualsItself) {
  for (const CorpusCase& c : ReadModel("resnet_train")) {
    for (const CorpusValue& value : c.outputs) {
      const auto* tensor = std::get_if<CorpusTensor>(&value);
      if (tensor == nullptr) continue;
      const Comparison same =
          CompareTensors({tensor->layout, tensor->data()}, *tensor, {});
      EXPECT_TRUE(same.equal) << same.difference;
      EXPECT_EQ(same.ratio, 0);
    }
  }
}

CorpusTensor Floats(const std::vector<double>& values, DType dtype) {
  const auto count = static_cast<int64_t>(values.size());
  CorpusTensor out{{dtype, {count}, {1}, 0},
                   std::vector<char>(count * SizeInBytes(dtype))};
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(dtype, values[i], out.data() + i * SizeInBytes(dtype));
  }
  return out;
}

Comparison Compare(const CorpusTensor& got, const CorpusTensor& expected,
                   Tolerance tolerance) {
  return CompareTensors({got.layout, got.data()}, expected, tolerance);
}

TEST(CorpusCompare, NamesTheWorstElement) {
  const auto got = Floats({1, 2.5, NAN, INFINITY}, DType::kFloat32);
  const auto due = Floats({1, 2.25, NAN, INFINITY}, DType::kFloat32);
  EXPECT_TRUE(Compare(got, due, {.atol = 0.25}).equal);
  const Comparison off = Compare(got, due, {.atol = 0.125});
  EXPECT_FALSE(off.equal);
  EXPECT_EQ(off.ratio, 2);
  EXPECT_EQ(off.difference,
            "[1]: 2.5, expected 2.25, off by 0.25, allowed 0.125");
}

TEST(CorpusCompare, NaNIsNoNumber) {
  const auto nan = Floats({NAN}, DType::kFloat16);
  const auto one = Floats({1}, DType::kFloat16);
  EXPECT_FALSE(Compare(nan, one, {.atol = 100}).equal);
  EXPECT_FALSE(Compare(one, nan, {.atol = 100}).equal);
}

TEST(CorpusCompare, IntegersAreExactAndStridesCount) {
  const auto three = Floats({3, 4}, DType::kInt64);
  const auto four = Floats({4, 4}, DType::kInt64);
  EXPECT_FALSE(Compare(three, four, {.rtol = 1, .atol = 100}).equal);
  CorpusTensor spread = three;
  spread.layout.strides = {2};
  spread.storage.resize(24);
  EXPECT_EQ(Compare(spread, three, {}).difference, "strides [2], expected [1]");
}

TEST(CorpusTensor, HalvesRoundToEven) {
  for (const double value :
       {1.0, -0.5, 65504.0, 6.103515625e-05, 5.9604644775390625e-08, 0.0}) {
    char bits[2];
    StoreElement(DType::kFloat16, value, bits);
    EXPECT_EQ(ElementAsDouble(DType::kFloat16, bits), value);
  }
  char bits[2];
  StoreElement(DType::kFloat16, 2049, bits);  // between 2048 and 2050
  EXPECT_EQ(ElementAsDouble(DType::kFloat16, bits), 2048);
  StoreElement(DType::kBFloat16, 257, bits);  // between 256 and 258
  EXPECT_EQ(ElementAsDouble(DType::kBFloat16, bits), 256);
  StoreElement(DType::kFloat16, 1e6, bits);
  EXPECT_EQ(ElementAsDouble(DType::kFloat16, bits), INFINITY);
}

}  // namespace
}  // namespace kiln

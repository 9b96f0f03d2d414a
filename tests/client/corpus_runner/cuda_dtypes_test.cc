#include "client/corpus_runner/cuda_dtypes.h"

#include <fstream>

#include "client/corpus_runner/retarget_graph.h"
#include "compiler/graph/graph_import.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_bytes.h"

namespace kiln {
namespace {

std::string FileOf(const std::string& text) {
  std::string path = testing::TempDir() + "/cuda_dtypes.json";
  std::ofstream(path) << text;
  return path;
}

CorpusCase Halves() {
  CorpusCase out;
  out.name = "c";
  out.has_data = true;
  CorpusTensor tensor = {{DType::kFloat16, {2}, {2}, 0}, std::vector<char>(6)};
  StoreElement(DType::kFloat16, 1.5, &tensor.storage[0]);
  StoreElement(DType::kFloat16, -0.25, &tensor.storage[4]);
  out.outputs = {int64_t{3}, tensor};
  out.output_tolerance = {{}, {0.004, 0.001}};
  return out;
}

TEST(CudaDTypes, ValuesAndToleranceStayWhereTheDTypeIsWider) {
  const auto dtypes = ReadCudaDTypes(FileOf(
      R"({"recorded": "x", "cases": {"c": {"1": "float32"}, "d": {}}})"));
  ASSERT_TRUE(dtypes.ok()) << dtypes.status();
  CorpusCase test_case = Halves();
  ASSERT_TRUE(ApplyCudaDTypes(*dtypes, test_case).ok());
  const auto& wide = std::get<CorpusTensor>(test_case.outputs[1]);
  EXPECT_EQ(wide.layout.dtype, DType::kFloat32);
  EXPECT_EQ(wide.layout.strides, std::vector<int64_t>{2});
  EXPECT_EQ(ElementAsDouble(DType::kFloat32, wide.data()), 1.5);
  EXPECT_EQ(ElementAsDouble(DType::kFloat32, wide.data() + 8), -0.25);
  EXPECT_EQ(test_case.output_tolerance[1].rtol, 0.004);
}

TEST(CudaDTypes, WhatIsNoWiderResultIsRefused) {
  for (const char* wrong : {R"({"1": "float16"})", R"({"0": "float32"})",
                            R"({"2": "float32"})", R"({"1": "int64"})"}) {
    const auto dtypes = ReadCudaDTypes(
        FileOf(std::string(R"({"cases": {"c": )") + wrong + "}}"));
    ASSERT_TRUE(dtypes.ok()) << dtypes.status();
    CorpusCase test_case = Halves();
    EXPECT_EQ(ReasonOf(ApplyCudaDTypes(*dtypes, test_case)),
              ErrorReason::kMalformedGraph)
        << wrong;
  }
}

TEST(CudaDTypes, AFileThatIsNoSuchFileIsRefused) {
  EXPECT_TRUE(absl::IsNotFound(ReadCudaDTypes("/nowhere").status()));
  for (const char* text :
       {"", "[]", R"({"cases": 3})", R"({"cases": {"c": {"x": "float32"}}})",
        R"({"cases": {"c": {"1": "complex64"}}})"}) {
    EXPECT_EQ(ReasonOf(ReadCudaDTypes(FileOf(text)).status()),
              ErrorReason::kMalformedGraph)
        << text;
  }
}

// What PyTorch gives on CUDA is what the compiler infers there: of each sample
// that is named, and of no other.
TEST(CudaDTypes, AreThoseTheCompilerInfersForCuda) {
  const auto dtypes = ReadCudaDTypes("tests/corpus/cuda_dtypes.json");
  ASSERT_TRUE(dtypes.ok()) << dtypes.status();
  const auto files = ListCorpusFiles("tests/corpus/ops");
  ASSERT_TRUE(files.ok()) << files.status();
  int named = 0;
  for (const std::string& file : *files) {
    auto cases = ReadCorpusFile(file);
    ASSERT_TRUE(cases.ok()) << cases.status();
    for (CorpusCase& c : *cases) {
      if (!c.readable.ok()) continue;
      RetargetGraph(c.graph, wire::DEVICE_TYPE_CUDA);
      const auto graph = ImportGraph(c.graph);
      if (!graph.ok()) continue;  // refused, whatever the dtype
      named += dtypes->count(c.name) > 0 ? 1 : 0;
      ASSERT_TRUE(ApplyCudaDTypes(*dtypes, c).ok()) << c.name;
      ASSERT_EQ(graph->outputs.size(), c.outputs.size()) << c.name;
      for (size_t i = 0; i < c.outputs.size(); ++i) {
        const auto* due = std::get_if<CorpusTensor>(&c.outputs[i]);
        const auto* value = std::get_if<ValueId>(&graph->outputs[i].what);
        if (due == nullptr || value == nullptr) continue;
        EXPECT_EQ(graph->meta(*value).dtype, due->layout.dtype)
            << c.name << " output " << i;
      }
    }
  }
  EXPECT_EQ(named, 3);
}

}  // namespace
}  // namespace kiln

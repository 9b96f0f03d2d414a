// Every graph of the corpus is imported, and what inference gives is compared
// with what PyTorch recorded.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/graph_import.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph/graph_verifier.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_bytes.h"
#include "proto/corpus/corpus_case.h"

namespace kiln {
namespace {

// The strides that PyTorch recorded, at the hints; dimensions of size 1 and
// empty tensors have strides that nothing hangs on.
bool SameStrides(const wire::TensorMeta& recorded, const TensorMeta& inferred,
                 const ShapeEnv& shapes) {
  for (int d = 0; d < inferred.rank(); ++d) {
    const int64_t size = shapes.Hint(inferred.sizes[d]);
    if (size == 0) return true;
    if (size == 1 || recorded.strides(d).code_size() != 0) continue;
    if (shapes.Hint(inferred.strides[d]) != recorded.strides(d).value()) {
      return false;
    }
  }
  return true;
}

struct Tally {
  int imported = 0;
  std::map<std::string, int> refused;        // by message
  std::map<std::string, int> other_strides;  // by operator
  std::vector<std::string> wrong;
};

void Check(const CorpusCase& test_case, Tally& tally) {
  const auto graph = ImportGraph(test_case.graph);
  if (!graph.ok()) {
    const std::string message(graph.status().message());
    if (ReasonOf(graph.status()) == ErrorReason::kUnsupportedOp) {
      ++tally.refused[message.substr(message.find(": ") + 2)];
    } else {
      tally.wrong.push_back(absl::StrCat(test_case.name, ": ", message));
    }
    return;
  }
  ++tally.imported;
  if (const absl::Status sound = VerifyGraph(*graph); !sound.ok()) {
    tally.wrong.push_back(absl::StrCat(test_case.name, ": ", sound.message()));
  }
  for (int i = 0; i < test_case.graph.nodes_size(); ++i) {
    const wire::Node& recorded = test_case.graph.nodes(i);
    const Node& node = graph->nodes()[i];
    for (int r = 0; r < recorded.results_size(); ++r) {
      const TensorMeta& meta = graph->meta(node.results[r]);
      if (recorded.results(r).dtype() == wire::DTYPE_UNSPECIFIED ||
          SameStrides(recorded.results(r), meta, graph->shapes)) {
        continue;
      }
      ++tally.other_strides[recorded.op()];
      if (std::getenv("KILN_TEST_SHOW") != nullptr) {
        std::string strides;
        for (const auto& s : recorded.results(r).strides()) {
          absl::StrAppend(&strides, " ", s.value());
        }
        std::fprintf(stderr, "%s %s %s: %s, recorded%s\n",
                     test_case.name.c_str(), recorded.name().c_str(),
                     recorded.op().c_str(), ToText(meta).c_str(),
                     strides.c_str());
      }
    }
  }
  const std::string text = PrintGraph(*graph);
  const auto again = ParseGraph(text);
  if (!again.ok() || PrintGraph(*again) != text) {
    tally.wrong.push_back(absl::StrCat(
        test_case.name, ": text is not read back: ",
        again.ok() ? "it prints otherwise" : again.status().message()));
  }
}

Tally CheckAll(const std::string& folder) {
  Tally tally;
  const auto files = ListCorpusFiles(folder);
  EXPECT_TRUE(files.ok()) << files.status();
  for (const std::string& file : *files) {
    const auto cases = ReadCorpusFile(file);
    EXPECT_TRUE(cases.ok()) << cases.status();
    for (const CorpusCase& test_case : *cases) {
      if (test_case.readable.ok()) Check(test_case, tally);
    }
  }
  for (const auto& [message, count] : tally.refused) {
    std::fprintf(stderr, "%4d  %s\n", count, message.c_str());
  }
  std::fprintf(stderr, "%d graphs imported\n", tally.imported);
  for (const auto& [op, count] : tally.other_strides) {
    std::fprintf(stderr, "other strides: %4d  %s\n", count, op.c_str());
  }
  return tally;
}

TEST(CorpusImport, EveryModelIsImportedAsPyTorchRecordedIt) {
  const char* folder = std::getenv("KILN_TEST_CORPUS");
  const Tally tally =
      CheckAll(folder != nullptr ? folder : "tests/corpus/models");
  for (const std::string& line : tally.wrong) ADD_FAILURE() << line;
  if (folder != nullptr) return;
  // All of them.
  EXPECT_EQ(tally.imported, 75);
  // The fake tensors of a few captures differ from what PyTorch then does.
  const std::map<std::string, int> other_strides = {
      {"aten.copy.default", 2},
      {"aten.masked_fill.Scalar", 2},
      {"aten.mul.Tensor", 2},
      {"aten.native_batch_norm_backward.default", 1},
      {"aten.native_layer_norm_backward.default", 2}};
  EXPECT_EQ(tally.other_strides, other_strides);
}

TEST(CorpusImport, ModelsOfTrueSizeAreImported) {
  const Tally tally = CheckAll("tests/corpus/full");
  for (const std::string& line : tally.wrong) ADD_FAILURE() << line;
  EXPECT_EQ(tally.imported, 25);
  const std::map<std::string, int> other_strides = {
      {"aten.add.Tensor", 2},
      {"aten.copy.default", 1},
      {"aten.threshold_backward.default", 3}};
  EXPECT_EQ(tally.other_strides, other_strides);
}

}  // namespace
}  // namespace kiln

// What PyTorch computed, the reference interpreter computes: from the graph as
// it came, and from the graph after all passes. The tolerances are the
// corpus's.

#include <fstream>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "proto/corpus/corpus_bytes.h"
#include "tests/compiler/reference/corpus_on_reference.h"

namespace kiln {
namespace {

// The names in a list below tests/compiler/graph_passes: cases whose operators
// are not all known yet and which say so.
std::set<std::string> Listed(const std::string& list) {
  std::ifstream in("tests/compiler/graph_passes/" + list);
  EXPECT_TRUE(in.good()) << list;
  std::set<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') names.insert(line);
  }
  return names;
}

// Every case of the folder gives PyTorch's results, but those of the list,
// which name what is missing. A case that begins or ceases to say so fails
// until the list is mended.
void EveryCaseIsEqual(const std::string& folder, const std::string& list,
                      Through through) {
  const auto files = ListCorpusFiles(folder);
  ASSERT_TRUE(files.ok()) << files.status();
  std::set<std::string> missing;
  for (const std::string& file : *files) {
    const auto cases = ReadCorpusFile(file);
    ASSERT_TRUE(cases.ok()) << cases.status();
    for (const CorpusCase& c : *cases) {
      const CaseVerdict verdict = RunOnReference(c, through);
      if (verdict.outcome == CaseVerdict::Outcome::kUnimplemented) {
        missing.insert(c.name);
      } else {
        EXPECT_EQ(verdict.outcome, CaseVerdict::Outcome::kEqual)
            << c.name << ": " << verdict.detail;
      }
    }
  }
  EXPECT_EQ(missing, Listed(list));
}

constexpr char kModels[] = "tests/corpus/models";
constexpr char kSamples[] = "tests/corpus/ops";

TEST(CorpusSameness, TheReferenceInterpreterEqualsPyTorchOnEveryModel) {
  EveryCaseIsEqual(kModels, "models_missing.txt", Through::kImport);
}

TEST(CorpusSameness, TheGraphPassesKeepWhatEveryModelComputes) {
  EveryCaseIsEqual(kModels, "models_missing.txt", Through::kPipeline);
}

TEST(CorpusSameness, TheReferenceInterpreterEqualsPyTorchOnEverySample) {
  EveryCaseIsEqual(kSamples, "samples_missing.txt", Through::kImport);
}

TEST(CorpusSameness, TheGraphPassesKeepWhatEverySampleComputes) {
  EveryCaseIsEqual(kSamples, "samples_missing_after_passes.txt",
                   Through::kPipeline);
}

}  // namespace
}  // namespace kiln

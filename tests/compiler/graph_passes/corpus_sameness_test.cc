// What PyTorch computed, the reference interpreter computes: from the graph as
// it came, and from the graph after all passes. The tolerances are the
// corpus's.

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "proto/corpus/corpus_bytes.h"
#include "tests/compiler/reference/corpus_on_reference.h"

namespace kiln {
namespace {

// Models whose operators are not all known yet; they must say so.
const std::set<std::string>& NotYet() {
  static const auto* const kModels = new std::set<std::string>{
      "dlrm_train.fwd0", "dlrm_train.bwd0", "mixtral_infer.infer0"};
  return *kModels;
}

void EveryModelIsEqual(Through through) {
  const auto files = ListCorpusFiles("tests/corpus/models");
  ASSERT_TRUE(files.ok()) << files.status();
  int equal = 0;
  for (const std::string& file : *files) {
    const auto cases = ReadCorpusFile(file);
    ASSERT_TRUE(cases.ok()) << cases.status();
    for (const CorpusCase& c : *cases) {
      const CaseVerdict verdict = RunOnReference(c, through);
      if (verdict.outcome == CaseVerdict::Outcome::kUnimplemented) {
        EXPECT_EQ(NotYet().count(c.name), 1)
            << c.name << ": " << verdict.detail;
        continue;
      }
      EXPECT_EQ(verdict.outcome, CaseVerdict::Outcome::kEqual)
          << c.name << ": " << verdict.detail;
      ++equal;
    }
  }
  EXPECT_GE(equal, 72);
}

TEST(CorpusSameness, TheReferenceInterpreterEqualsPyTorchOnEveryModel) {
  EveryModelIsEqual(Through::kImport);
}

TEST(CorpusSameness, TheGraphPassesKeepWhatEveryModelComputes) {
  EveryModelIsEqual(Through::kPipeline);
}

// One sample after the other; those whose operator is not known say so. The
// count only grows.
TEST(CorpusSameness, EveryOperatorSampleIsEqualOrSaysWhatIsMissing) {
  const auto files = ListCorpusFiles("tests/corpus/ops");
  ASSERT_TRUE(files.ok()) << files.status();
  int equal = 0, missing = 0;
  for (const std::string& file : *files) {
    const auto cases = ReadCorpusFile(file);
    ASSERT_TRUE(cases.ok()) << cases.status();
    for (const CorpusCase& c : *cases) {
      for (const Through through : {Through::kImport, Through::kPipeline}) {
        const CaseVerdict verdict = RunOnReference(c, through);
        EXPECT_NE(verdict.outcome, CaseVerdict::Outcome::kWrong)
            << c.name << ": " << verdict.detail;
        if (through == Through::kImport) continue;
        equal += verdict.outcome == CaseVerdict::Outcome::kEqual;
        missing += verdict.outcome == CaseVerdict::Outcome::kUnimplemented;
      }
    }
  }
  RecordProperty("equal", equal);
  RecordProperty("missing", missing);
  EXPECT_GE(equal, 830) << missing << " say that an operator is missing";
}

}  // namespace
}  // namespace kiln

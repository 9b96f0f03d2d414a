// Runs corpus cases on the reference interpreter, as imported and through the
// graph passes: a line for each that is not equal, and counts.
//
//   corpus_on_reference PATH...

#include <cstdio>
#include <map>
#include <string>

#include "proto/corpus/corpus_bytes.h"
#include "tests/compiler/reference/corpus_on_reference.h"

namespace kiln {
namespace {

const char* Word(CaseVerdict::Outcome outcome) {
  switch (outcome) {
    case CaseVerdict::Outcome::kEqual:
      return "ok";
    case CaseVerdict::Outcome::kWrong:
      return "WRONG";
    case CaseVerdict::Outcome::kUnimplemented:
      return "UNIMPLEMENTED";
  }
  return "";
}

int Main(int argc, char** argv) {
  std::map<std::string, int> counts;
  for (int i = 1; i < argc; ++i) {
    const auto files = ListCorpusFiles(argv[i]);
    if (!files.ok()) continue;
    for (const std::string& file : *files) {
      const auto cases = ReadCorpusFile(file);
      if (!cases.ok()) continue;
      for (const CorpusCase& c : *cases) {
        if (!c.has_data) continue;
        for (Through through : {Through::kImport, Through::kPipeline}) {
          const CaseVerdict verdict = RunOnReference(c, through);
          const std::string how =
              through == Through::kImport ? "import" : "pipeline";
          ++counts[how + " " + Word(verdict.outcome)];
          if (verdict.outcome == CaseVerdict::Outcome::kEqual) continue;
          std::fflush(stdout);
          std::printf("%s %s %s: %s\n", Word(verdict.outcome), how.c_str(),
                      c.name.c_str(), verdict.detail.c_str());
        }
      }
    }
  }
  for (const auto& [word, count] : counts) {
    std::printf("%s: %d\n", word.c_str(), count);
  }
  return 0;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }

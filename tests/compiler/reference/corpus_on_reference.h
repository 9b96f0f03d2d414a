#ifndef KILN_TESTS_COMPILER_REFERENCE_CORPUS_ON_REFERENCE_H_
#define KILN_TESTS_COMPILER_REFERENCE_CORPUS_ON_REFERENCE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compiler/reference/run_reference.h"
#include "proto/corpus/corpus_case.h"

namespace kiln {

// What happens to a case's graph before the reference interpreter runs it.
enum class Through { kImport, kPipeline };

struct CaseVerdict {
  enum class Outcome { kEqual, kWrong, kUnimplemented };
  Outcome outcome = Outcome::kEqual;
  std::string detail;  // the worst output; or the operator that is missing
};

// Imports the case, lets the graph passes work on it where asked, runs it and
// compares outputs and mutated inputs with PyTorch's, within the case's
// tolerances. Strides of outputs are not compared: the interpreter's are those
// that inference gives.
CaseVerdict RunOnReference(const CorpusCase& test_case, Through through);

// What some interpreter computed for a case, against PyTorch's.
CaseVerdict CompareWithCase(const CorpusCase& test_case, const RefOutcome& got);

// The interpreter's inputs for a case with data.
std::vector<RefValue> ReferenceInputs(absl::Span<const CorpusValue> inputs);

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_REFERENCE_CORPUS_ON_REFERENCE_H_

#include "client/compilectl/case_request.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "client/compilectl/target_of.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_case.h"

namespace kiln {

absl::StatusOr<wire::CompileRequest> RequestOf(const CaseOptions& options) {
  const size_t jsonl = options.subject.find(".jsonl");
  if (jsonl == std::string::npos) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("found \"", options.subject,
                     "\", expected a corpus file FILE.jsonl[:CASE]"));
  }
  const std::string file = options.subject.substr(0, jsonl + 6);
  const size_t colon = options.subject.find(':', jsonl);
  const std::string name =
      colon == std::string::npos ? "" : options.subject.substr(colon + 1);
  ASSIGN_OR_RETURN(const std::vector<CorpusCase> cases, ReadCorpusFile(file));
  for (const CorpusCase& test_case : cases) {
    if (!name.empty() && test_case.name != name) continue;
    RETURN_IF_ERROR(test_case.readable);
    wire::CompileRequest request;
    *request.mutable_graph() = test_case.graph;
    request.set_cache_namespace(options.cache_namespace);
    ASSIGN_OR_RETURN(*request.mutable_target(),
                     TargetOf(options.device, options.arch));
    return request;
  }
  if (cases.empty()) {
    return absl::NotFoundError(
        absl::StrCat(file, ": has no case, expected a line of JSON for each"));
  }
  return absl::NotFoundError(absl::StrCat(file, ": found no case ", name,
                                          " among ", cases.size(),
                                          ", the first is ", cases[0].name));
}

}  // namespace kiln

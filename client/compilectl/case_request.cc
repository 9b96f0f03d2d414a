#include "client/compilectl/case_request.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "client/compilectl/target_of.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_case.h"

namespace kiln {

namespace {

// "a, b, c", and how many more there are.
std::string NamesOf(const std::vector<CorpusCase>& cases) {
  constexpr size_t kMost = 20;
  const size_t told = std::min(cases.size(), kMost);
  std::string names = absl::StrJoin(
      absl::MakeConstSpan(cases).first(told), ", ",
      [](std::string* out, const CorpusCase& one) { out->append(one.name); });
  if (told < cases.size())
    absl::StrAppend(&names, " and ", cases.size() - told, " more");
  return names;
}

}  // namespace

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
  return absl::NotFoundError(absl::StrCat(
      file, ": has no case \"", name, "\", expected one of ", NamesOf(cases)));
}

}  // namespace kiln

#ifndef KILN_CLIENT_CORPUS_RUNNER_REPORT_JSON_H_
#define KILN_CLIENT_CORPUS_RUNNER_REPORT_JSON_H_

#include <string>
#include <vector>

#include "client/corpus_runner/run_case.h"

namespace kiln {

// The results as one JSON array, for scripts. Each case is an object with `name`,
// `verdict`, `detail`, `worst_ratio`, `served_from`, `compile_ms`, `load_ms`,
// `first_run_ms`, `run_ms` and, if it was compiled, the fields of PlanFigures.
std::string ReportJson(const std::vector<CaseResult>& results);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_REPORT_JSON_H_

#include "client/corpus_runner/report_json.h"

#include <algorithm>

#include "nlohmann/json.hpp"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

absl::string_view ServedWord(const CompileReport& report) {
  if (report.by_local_worker) return "local_worker";
  switch (report.served_from) {
    case wire::CompileResult::SERVED_FROM_CACHE:
      return "cache";
    case wire::CompileResult::SERVED_FROM_COMPILE:
      return "compile";
    case wire::CompileResult::SERVED_FROM_JOINED:
      return "joined";
    default:  // nothing was served
      return "none";
  }
}

Json RowOf(const CaseResult& result) {
  Json row;
  row["name"] = result.name;
  row["verdict"] = std::string(VerdictWord(result.verdict));
  row["detail"] = result.detail;
  // JSON has no infinity: anything this wrong is equally wrong.
  row["worst_ratio"] = std::min(result.worst_ratio, 1e30);
  row["worst_error"] = std::min(result.worst_error, 1e30);
  row["worst_allowed"] = std::min(result.worst_allowed, 1e30);
  row["served_from"] = std::string(ServedWord(result.compile));
  row["compile_ms"] = absl::ToDoubleMilliseconds(result.compile.compile);
  row["load_ms"] = absl::ToDoubleMilliseconds(result.compile.load);
  row["first_run_ms"] = absl::ToDoubleMilliseconds(result.first_run);
  row["run_ms"] = absl::ToDoubleMilliseconds(result.run);
  row["units_built"] = result.compile.units_built;
  row["units_cached"] = result.compile.units_cached;
  if (!result.figures.has_value()) return row;
  const PlanFigures& figures = *result.figures;
  row["kernels"] = figures.kernels;
  row["copies"] = figures.copies;
  row["fills"] = figures.fills;
  row["externs"] = figures.externs;
  row["bytes_moved"] = figures.bytes_moved;
  row["arena_bytes"] = figures.arena_bytes;
  row["planned_arena_bytes"] = figures.planned_arena_bytes;
  row["peak_live_bytes"] = figures.peak_live_bytes;
  row["object_bytes"] = figures.object_bytes;
  return row;
}

}  // namespace

std::string ReportJson(const std::vector<CaseResult>& results) {
  Json rows = Json::array();
  for (const CaseResult& result : results) rows.push_back(RowOf(result));
  return rows.dump(1, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace) +
         "\n";
}

}  // namespace kiln

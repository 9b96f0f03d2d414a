#include "client/corpus_runner/check_expect.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "proto/base/dtype.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

int64_t CounterOf(const wire::Artifact& artifact, absl::string_view name) {
  for (const wire::Counter& counter : artifact.compiled().counters()) {
    if (counter.name() == name) return counter.value();
  }
  return 0;
}

// Whether `exprs` are these numbers, without symbols.
bool Are(const google::protobuf::RepeatedPtrField<wire::SymExpr>& exprs,
         const std::vector<int64_t>& numbers) {
  return std::equal(exprs.begin(), exprs.end(), numbers.begin(), numbers.end(),
                    [](const wire::SymExpr& expr, int64_t number) {
                      return expr.code().empty() && expr.value() == number;
                    });
}

// Calls `see` with every view that the plan names.
void VisitViews(const wire::LaunchPlan& plan,
                const std::function<void(const wire::BufferView&)>& see) {
  for (const wire::PlanBuffer& buffer : plan.buffers())
    if (buffer.has_written()) see(buffer.written());
  for (const wire::PlanStep& step : plan.steps()) {
    for (const wire::BufferView& view : step.extern_call().inputs()) see(view);
    for (const wire::BufferView& view : step.extern_call().outputs()) see(view);
    if (step.has_copy()) {
      see(step.copy().from());
      see(step.copy().to());
    }
    if (step.has_fill()) see(step.fill().to());
  }
  for (const wire::PlanOutput& output : plan.outputs()) {
    if (output.has_view()) see(output.view());
  }
}

std::string BufferDifference(const Json& due, const wire::LaunchPlan& plan) {
  const auto sizes = due.at("size").get<std::vector<int64_t>>();
  const auto strides = due.at("stride").get<std::vector<int64_t>>();
  int64_t allocated = 1;
  for (const int64_t size : due.at("allocated")) allocated *= size;
  bool found = false;
  VisitViews(plan, [&](const wire::BufferView& view) {
    const std::optional<DType> dtype = DTypeFromWire(view.dtype());
    if (!dtype.has_value() || !Are(view.sizes(), sizes) ||
        !Are(view.strides(), strides) ||
        view.buffer() >= static_cast<uint32_t>(plan.buffers_size())) {
      return;
    }
    const wire::SymExpr& bytes =
        plan.buffers(static_cast<int>(view.buffer())).bytes();
    found |= bytes.code().empty() &&
             bytes.value() == allocated * SizeInBytes(*dtype);
  });
  if (found) return "";
  return absl::StrCat("buffer: found none, expected one of sizes [",
                      absl::StrJoin(sizes, ", "), "], strides [",
                      absl::StrJoin(strides, ", "), "] and ", allocated,
                      " elements of memory");
}

std::string CountDifference(absl::string_view name, int64_t found,
                            int64_t due) {
  if (found == due) return "";
  return absl::StrCat(name, ": found ", found, ", expected ", due);
}

std::string DifferenceOf(const std::string& name, const Json& due,
                         const wire::Artifact& artifact,
                         const PlanFigures& figures) {
  if (name == "options") return "";  // ApplyExpectedOptions
  if (name == "buffer") {
    return BufferDifference(due, artifact.compiled().plan());
  }
  if (name == "kernels") {
    return CountDifference(name, figures.kernels, due.get<int64_t>());
  }
  if (name == "scatter_upon_const_matches") {
    return CountDifference(name,
                           CounterOf(artifact, "scatter_upon_const_tensor"),
                           due.get<int64_t>());
  }
  if (name == "inplace_padding" || name == "num_bytes_accessed") {
    return CountDifference(name, CounterOf(artifact, name), due.get<int64_t>());
  }
  if (name == "num_bytes_accessed_at_least") {
    const int64_t found = CounterOf(artifact, "num_bytes_accessed");
    if (found >= due.get<int64_t>()) return "";
    return absl::StrCat("num_bytes_accessed: found ", found, ", expected ",
                        due.get<int64_t>(), " or more");
  }
  return absl::StrCat(name, ": expected ", due.dump(),
                      ", which this program cannot check");
}

bool SetOption(const std::string& name, const Json& value,
               wire::ArtifactOptions& options) {
  using Field = google::protobuf::FieldDescriptor;
  const Field* const field = options.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr) return false;
  const google::protobuf::Reflection& set = *options.GetReflection();
  if (field->cpp_type() == Field::CPPTYPE_BOOL && value.is_boolean()) {
    set.SetBool(&options, field, value.get<bool>());
    return true;
  }
  if (field->cpp_type() == Field::CPPTYPE_UINT32 &&
      value.is_number_unsigned()) {
    set.SetUInt32(&options, field, value.get<uint32_t>());
    return true;
  }
  return false;
}

}  // namespace

absl::Status ApplyExpectedOptions(const std::string& expect,
                                  wire::CompileOptions& options) {
  if (expect.empty()) return absl::OkStatus();
  const Json fields = Json::parse(expect, nullptr, /*allow_exceptions=*/false);
  if (!fields.is_object() || !fields.contains("options")) {
    return absl::OkStatus();
  }
  for (const auto& [name, value] : fields.at("options").items()) {
    if (!SetOption(name, value, *options.mutable_artifact())) {
      return MakeError(
          ErrorReason::kUnsupportedOp,
          absl::StrCat("option ", name, ": expected ", value.dump(),
                       ", and a request has no such option"));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> ExpectDifferences(const std::string& expect,
                                           const wire::Artifact& artifact,
                                           const PlanFigures& figures) {
  std::vector<std::string> out;
  if (expect.empty()) return out;
  try {
    const Json fields = Json::parse(expect);
    for (const auto& [name, due] : fields.items()) {
      std::string difference = DifferenceOf(name, due, artifact, figures);
      if (!difference.empty()) out.push_back(std::move(difference));
    }
  } catch (const Json::exception& error) {
    out.push_back(absl::StrCat("expect: ", error.what()));
  }
  return out;
}

}  // namespace kiln

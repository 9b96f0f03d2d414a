#include "tests/compiler/reference/corpus_on_reference.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/graph_import.h"
#include "compiler/graph/graph_verifier.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_compare.h"

namespace kiln {
namespace {

RefValue ToReference(const CorpusValue& value) {
  if (const int64_t* number = std::get_if<int64_t>(&value)) return *number;
  const CorpusTensor* tensor = std::get_if<CorpusTensor>(&value);
  if (tensor == nullptr) return std::monostate();
  RefTensor t;
  t.storage = std::make_shared<std::string>(tensor->storage.begin(),
                                            tensor->storage.end());
  t.dtype = tensor->layout.dtype;
  t.sizes = tensor->layout.sizes;
  t.strides = tensor->layout.strides;
  t.offset = tensor->layout.storage_offset;
  return t;
}

// Empty when equal.
std::string Difference(const RefValue& got, const CorpusValue& due,
                       Tolerance tolerance) {
  if (const int64_t* number = std::get_if<int64_t>(&due)) {
    const int64_t* mine = std::get_if<int64_t>(&got);
    return mine != nullptr && *mine == *number ? "" : "another integer";
  }
  const CorpusTensor* tensor = std::get_if<CorpusTensor>(&due);
  if (tensor == nullptr) return "";
  const RefTensor* mine = std::get_if<RefTensor>(&got);
  if (mine == nullptr || !mine->defined()) return "no tensor";
  if (mine->sizes.size() != tensor->layout.sizes.size()) return "another rank";
  const RefTensor laid_out = mine->WithLayout(tensor->layout.strides, 0);
  const ComputedTensor computed{
      {laid_out.dtype, laid_out.sizes, laid_out.strides, 0},
      laid_out.storage->data()};
  return CompareTensors(computed, *tensor, tolerance).difference;
}

absl::StatusOr<RefOutcome> Run(const CorpusCase& c, Through through) {
  RETURN_IF_ERROR(c.readable);
  ASSIGN_OR_RETURN(Graph graph, ImportGraph(c.graph));
  if (through == Through::kPipeline) {
    ASSIGN_OR_RETURN(const Target target, TargetFromName("x86-64-v3"));
    std::vector<PassRecord> records;
    RETURN_IF_ERROR(
        RunGraphPipeline(graph, PassEnv{target, CompileOptions()}, records));
    RETURN_IF_ERROR(VerifyGraph(graph));
  }
  return RunReference(graph, ReferenceInputs(c.inputs));
}

}  // namespace

std::vector<RefValue> ReferenceInputs(absl::Span<const CorpusValue> inputs) {
  std::vector<RefValue> values;
  for (const CorpusValue& input : inputs) {
    values.push_back(ToReference(input));
  }
  return values;
}

CaseVerdict CompareWithCase(const CorpusCase& c, const RefOutcome& got) {
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const std::string difference =
        Difference(got.outputs[i], c.outputs[i], c.output_tolerance[i]);
    if (!difference.empty()) {
      return {CaseVerdict::Outcome::kWrong,
              absl::StrCat("output ", i, ": ", difference)};
    }
  }
  for (const auto& [input, tensor] : c.mutated) {
    const auto tolerance = c.mutated_tolerance.find(input);
    const std::string difference =
        Difference(got.inputs[input], CorpusValue(tensor),
                   tolerance == c.mutated_tolerance.end() ? Tolerance{}
                                                          : tolerance->second);
    if (!difference.empty()) {
      return {CaseVerdict::Outcome::kWrong,
              absl::StrCat("mutated input ", input, ": ", difference)};
    }
  }
  return {};
}

CaseVerdict RunOnReference(const CorpusCase& test_case, Through through) {
  const absl::StatusOr<RefOutcome> got = Run(test_case, through);
  if (got.ok()) return CompareWithCase(test_case, *got);
  const bool missing = got.status().code() == absl::StatusCode::kUnimplemented;
  return {missing ? CaseVerdict::Outcome::kUnimplemented
                  : CaseVerdict::Outcome::kWrong,
          std::string(got.status().message())};
}

}  // namespace kiln

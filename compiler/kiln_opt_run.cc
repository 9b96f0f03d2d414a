#include "compiler/kiln_opt_run.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/graph/text_cursor.h"
#include "compiler/reference/run_reference.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_compare.h"
#include "proto/corpus/corpus_random.h"

namespace kiln {
namespace {

constexpr int64_t kShownElements = 8;

RefValue ToReference(const CorpusValue& value) {
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return *integer;
  const CorpusTensor* from = std::get_if<CorpusTensor>(&value);
  if (from == nullptr) return std::monostate();
  RefTensor tensor;
  tensor.storage =
      std::make_shared<std::string>(from->storage.begin(), from->storage.end());
  tensor.dtype = from->layout.dtype;
  tensor.sizes = from->layout.sizes;
  tensor.strides = from->layout.strides;
  tensor.offset = from->layout.storage_offset;
  return tensor;
}

std::string FirstElements(const RefTensor& tensor) {
  const Elements elements = Load(tensor);
  std::vector<std::string> shown;
  for (int64_t k = 0; k < std::min(kShownElements, elements.count()); ++k) {
    shown.push_back(elements.floating ? FloatText(elements.F(k))
                                      : absl::StrCat(elements.I(k)));
  }
  return absl::StrCat(ShortName(tensor.dtype), "[",
                      absl::StrJoin(tensor.sizes, ", "),
                      "] = ", absl::StrJoin(shown, ", "),
                      elements.count() > kShownElements ? ", ..." : "");
}

std::string Against(const RefTensor& got, const CorpusTensor& expected,
                    Tolerance tolerance) {
  ComputedTensor computed;
  computed.layout = {got.dtype, got.sizes, got.strides, got.offset};
  computed.first = got.storage->data() + got.offset * SizeInBytes(got.dtype);
  const Comparison comparison = CompareTensors(computed, expected, tolerance);
  if (comparison.equal) {
    return absl::StrCat("ok, error ", comparison.error, " of ",
                        comparison.allowed);
  }
  return absl::StrCat("WRONG ", comparison.difference);
}

}  // namespace

absl::StatusOr<std::string> RunForPeople(const Graph& graph,
                                         const CorpusCase& test_case,
                                         uint64_t seed) {
  const std::vector<CorpusValue> random = test_case.has_data
                                              ? std::vector<CorpusValue>()
                                              : RandomInputs(test_case, seed);
  std::vector<RefValue> inputs;
  for (const CorpusValue& value :
       test_case.has_data ? test_case.inputs : random) {
    inputs.push_back(ToReference(value));
  }
  ASSIGN_OR_RETURN(const RefOutcome outcome, RunReference(graph, inputs, seed));
  std::string text;
  for (size_t i = 0; i < outcome.outputs.size(); ++i) {
    absl::StrAppend(&text, "output ", i, ": ");
    const RefValue& value = outcome.outputs[i];
    const auto* tensor = std::get_if<RefTensor>(&value);
    const auto* expected =
        i < test_case.outputs.size()
            ? std::get_if<CorpusTensor>(&test_case.outputs[i])
            : nullptr;
    if (tensor != nullptr && expected != nullptr) {
      absl::StrAppend(
          &text, Against(*tensor, *expected, test_case.output_tolerance[i]));
    } else if (tensor != nullptr) {
      absl::StrAppend(&text, FirstElements(*tensor));
    } else if (const int64_t* integer = std::get_if<int64_t>(&value)) {
      absl::StrAppend(&text, *integer);
    } else {
      absl::StrAppend(&text, "none");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

CorpusCase CaseOf(const Graph& graph) {
  CorpusCase out;
  out.name = graph.name;
  const auto at_hints = [&graph](const DimVector& dims) {
    std::vector<int64_t> values;
    for (const SymExpr& e : dims) values.push_back(graph.shapes.Hint(e));
    return values;
  };
  for (const GraphInput& input : graph.inputs) {
    if (const SymExpr* e = std::get_if<SymExpr>(&input.what)) {
      out.specs.push_back(graph.shapes.Hint(*e));
      continue;
    }
    const TensorMeta& meta = graph.meta(std::get<ValueId>(input.what));
    CorpusInputSpec spec;
    spec.layout = {meta.dtype, at_hints(meta.sizes), at_hints(meta.strides),
                   graph.shapes.Hint(meta.offset)};
    out.specs.push_back(std::move(spec));
  }
  return out;
}

}  // namespace kiln

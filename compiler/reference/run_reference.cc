#include "compiler/reference/run_reference.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/reference/ref_call.h"
#include "compiler/reference/reference_table.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class ReferenceRun {
 public:
  ReferenceRun(const Graph& graph, uint64_t seed)
      : graph_(graph),
        values_(graph.num_values()),
        state_{symbols_, values_, seed, &next_stream_} {}

  absl::StatusOr<RefOutcome> Run(absl::Span<const RefValue> inputs) {
    RETURN_IF_ERROR(BindInputs(inputs));
    for (const GraphConstant& constant : graph_.constants) {
      const RefMeta meta = Concrete(graph_.meta(constant.value));
      values_[constant.value.index] =
          RefTensor::FromBytes(meta.dtype, meta.sizes, constant.data)
              .WithLayout(meta.strides, meta.offset);
    }
    for (const Node& node : graph_.nodes()) RETURN_IF_ERROR(RunNode(node));
    for (const Mutation& mutation : graph_.mutations) {
      Store(Load(values_[mutation.value.index]), values_[mutation.input.index]);
    }
    return Collect(inputs);
  }

 private:
  int64_t Evaluate(const SymExpr& e) const {
    return e.Evaluate([this](Var var) { return symbols_[var.index]; });
  }

  Sizes Evaluate(const DimVector& dims) const {
    Sizes numbers;
    for (const SymExpr& e : dims) numbers.push_back(Evaluate(e));
    return numbers;
  }

  RefMeta Concrete(const TensorMeta& meta) const {
    return {meta.dtype, Evaluate(meta.sizes), Evaluate(meta.strides),
            Evaluate(meta.offset), meta.defined};
  }

  absl::Status BindSymbols(absl::Span<const RefValue> inputs) {
    for (const SymbolFacts& symbol : graph_.shapes.symbols) {
      const SymbolSource& source = symbol.source;
      if (source.input >= inputs.size()) {
        return MakeError(ErrorReason::kMalformedGraph,
                         absl::StrCat("symbol ", symbol.name,
                                      ": found no input ", source.input));
      }
      const RefValue& input = inputs[source.input];
      if (const int64_t* number = std::get_if<int64_t>(&input)) {
        symbols_.push_back(*number);
        continue;
      }
      const RefTensor* tensor = std::get_if<RefTensor>(&input);
      if (tensor == nullptr || (source.kind == SymbolSource::Kind::kSize &&
                                source.dim >= tensor->sizes.size())) {
        return MakeError(ErrorReason::kMalformedGraph,
                         absl::StrCat("input ", source.input,
                                      ": does not give symbol ", symbol.name));
      }
      switch (source.kind) {
        case SymbolSource::Kind::kSize:
          symbols_.push_back(tensor->sizes[source.dim]);
          break;
        case SymbolSource::Kind::kStride:
          symbols_.push_back(tensor->strides[source.dim]);
          break;
        case SymbolSource::Kind::kOffset:
        case SymbolSource::Kind::kScalar:
          symbols_.push_back(tensor->offset);
          break;
      }
    }
    return absl::OkStatus();
  }

  absl::Status BindInputs(absl::Span<const RefValue> inputs) {
    if (inputs.size() != graph_.inputs.size()) {
      return MakeError(ErrorReason::kMalformedGraph,
                       absl::StrCat("inputs: found ", inputs.size(),
                                    ", expected ", graph_.inputs.size()));
    }
    RETURN_IF_ERROR(BindSymbols(inputs));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId* id = std::get_if<ValueId>(&graph_.inputs[i].what);
      if (id == nullptr) continue;
      const RefMeta meta = Concrete(graph_.meta(*id));
      const RefTensor* tensor = std::get_if<RefTensor>(&inputs[i]);
      if (tensor == nullptr || tensor->dtype != meta.dtype ||
          tensor->sizes != meta.sizes) {
        return MakeError(
            ErrorReason::kMalformedGraph,
            absl::StrCat("input ", i, ": found another kind, dtype or size, ",
                         "expected ", ShortName(meta.dtype), "[",
                         absl::StrJoin(meta.sizes, ", "), "]"));
      }
      values_[id->index] = tensor->WithLayout(meta.strides, meta.offset);
    }
    return absl::OkStatus();
  }

  absl::Status RunNode(const Node& node) {
    const ReferenceFn run = FindReference(*node.op);
    if (run == nullptr) return RunInPlace(node);
    std::vector<RefMeta> due;
    for (ValueId id : node.results) due.push_back(Concrete(graph_.meta(id)));
    RefCall call(*node.op, node.args, state_, due);
    RefResults results = run(call);
    RETURN_IF_ERROR(call.status());
    if (results.size() < node.results.size()) {
      return absl::InternalError(absl::StrCat(
          "reference of ", node.op->name, ": found ", results.size(),
          " results, expected ", node.results.size()));
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (due[i].defined && results[i].sizes != due[i].sizes) {
        return absl::InternalError(absl::StrCat(
            "reference of ", node.op->name, ": result ", i, " found [",
            absl::StrJoin(results[i].sizes, ", "), "], expected [",
            absl::StrJoin(due[i].sizes, ", "), "]"));
      }
      values_[node.results[i].index] = std::move(results[i]);
    }
    return absl::OkStatus();
  }

  // The functional form's result is written into the first argument.
  absl::Status RunInPlace(const Node& node) {
    const OpDef* functional = node.op->functional;
    const ReferenceFn run =
        functional == nullptr ? nullptr : FindReference(*functional);
    if (run == nullptr || !node.args[0].is_value()) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       absl::StrCat(node.op->name, ": has no reference"));
    }
    RefTensor self = values_[node.args[0].value().index];
    const RefMeta due[] = {
        {self.dtype, self.sizes, RowMajorStrides(self.sizes)}};
    RefCall call(*functional, node.args, state_, due);
    RefResults results = run(call);
    RETURN_IF_ERROR(call.status());
    Store(Load(results[0]), self);
    for (ValueId id : node.results) values_[id.index] = self;
    return absl::OkStatus();
  }

  RefOutcome Collect(absl::Span<const RefValue> given) const {
    RefOutcome outcome;
    for (const GraphOutput& output : graph_.outputs) {
      if (const ValueId* id = std::get_if<ValueId>(&output.what)) {
        outcome.outputs.push_back(values_[id->index]);
      } else if (const SymExpr* e = std::get_if<SymExpr>(&output.what)) {
        outcome.outputs.push_back(Evaluate(*e));
      } else {
        outcome.outputs.push_back(std::monostate());
      }
    }
    for (size_t i = 0; i < given.size(); ++i) {
      const ValueId* id = std::get_if<ValueId>(&graph_.inputs[i].what);
      outcome.inputs.push_back(id == nullptr ? given[i]
                                             : RefValue(values_[id->index]));
    }
    return outcome;
  }

  const Graph& graph_;
  std::vector<int64_t> symbols_;
  std::vector<RefTensor> values_;
  uint64_t next_stream_ = 0;
  const RefCall::State state_;
};

}  // namespace

absl::StatusOr<RefOutcome> RunReference(const Graph& graph,
                                        absl::Span<const RefValue> inputs,
                                        uint64_t seed) {
  return ReferenceRun(graph, seed).Run(inputs);
}

}  // namespace kiln

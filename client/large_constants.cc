#include "client/large_constants.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/dtype.h"
#include "proto/base/status.h"
#include "proto/key/graph_checks.h"
#include "proto/key/graph_limits.h"

namespace kiln {
namespace {

bool IsLarge(const wire::Constant& constant) {
  return static_cast<int64_t>(constant.data().size()) > kMaxConstantBytes;
}

absl::Status Malformed(absl::string_view found, absl::string_view due) {
  return MakeError(ErrorReason::kMalformedGraph,
                   absl::StrCat("found ", found, ", expected ", due));
}

// Whether the data is what the meta says: nobody looks at it later.
absl::Status CheckData(const wire::Constant& constant) {
  RETURN_IF_ERROR(CheckKnown(constant));
  const wire::TensorMeta& meta = constant.tensor();
  const std::optional<DType> dtype = DTypeFromWire(meta.dtype());
  if (!dtype.has_value()) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     wire::DType_Name(meta.dtype()));
  }
  if (meta.strides_size() != meta.sizes_size()) {
    return Malformed(absl::StrCat(meta.strides_size(), " strides"),
                     absl::StrCat(meta.sizes_size()));
  }
  int64_t elements = 1;
  for (int d = meta.sizes_size() - 1; d >= 0; --d) {
    const wire::SymExpr& size = meta.sizes(d);
    const wire::SymExpr& stride = meta.strides(d);
    if (size.code_size() > 0 || stride.code_size() > 0) {
      return Malformed("a size or stride that is a symbol", "a number");
    }
    if (size.value() != 1 && stride.value() != elements) {
      return Malformed(absl::StrCat("stride ", stride.value()),
                       absl::StrCat(elements, ": row-major"));
    }
    if (size.value() < 0 ||
        __builtin_mul_overflow(elements, size.value(), &elements) ||
        elements > kMaxTensorElements) {
      return Malformed(absl::StrCat("size ", size.value()), "a tensor's");
    }
  }
  const wire::SymExpr& offset = meta.storage_offset();
  if (offset.code_size() > 0 || offset.value() != 0) {
    return Malformed("an offset", "none");
  }
  const int64_t due = elements * SizeInBytes(*dtype);
  const int64_t found = constant.data().size();
  if (found == due) return absl::OkStatus();
  return Malformed(absl::StrCat(found, " bytes"), absl::StrCat(due));
}

// Values by their old numbers: only inputs and constants have new ones.
using Numbers = std::vector<uint32_t>;

void Renumber(const Numbers& now, wire::Argument& argument) {
  if (argument.kind_case() == wire::Argument::kValue &&
      argument.value() < now.size()) {
    argument.set_value(now[argument.value()]);
  }
  if (argument.kind_case() != wire::Argument::kList) return;
  for (wire::Argument& item : *argument.mutable_list()->mutable_items()) {
    Renumber(now, item);
  }
}

void Renumber(const Numbers& now, wire::Graph& graph) {
  for (wire::Node& node : *graph.mutable_nodes()) {
    for (wire::Argument& argument : *node.mutable_args()) {
      Renumber(now, argument);
    }
    for (wire::NamedArgument& argument : *node.mutable_kwargs()) {
      Renumber(now, *argument.mutable_value());
    }
  }
  for (wire::Output& output : *graph.mutable_outputs()) {
    if (output.kind_case() == wire::Output::kValue &&
        output.value() < now.size()) {
      output.set_value(now[output.value()]);
    }
  }
}

// Gives its memory back.
struct Held {
  std::shared_ptr<Device> device;
  void* memory;
  int64_t bytes;

  ~Held() { device->allocator().Free(memory, bytes, nullptr); }
};

absl::StatusOr<Tensor> Upload(const wire::Constant& constant,
                              const OpenedDevice& on) {
  Tensor tensor;
  for (const wire::SymExpr& size : constant.tensor().sizes()) {
    tensor.sizes.push_back(size.value());
  }
  tensor.strides = ContiguousStrides(tensor.sizes);
  tensor.dtype = *DTypeFromWire(constant.tensor().dtype());
  tensor.device = on.device->traits().kind;
  tensor.device_ordinal = on.device->traits().ordinal;
  const int64_t bytes = constant.data().size();
  ASSIGN_OR_RETURN(tensor.data,
                   on.device->allocator().Allocate(bytes, nullptr));
  tensor.storage = tensor.data;
  tensor.owner = std::shared_ptr<Held>(
      new Held{.device = on.device, .memory = tensor.data, .bytes = bytes});
  RETURN_IF_ERROR(
      on.device->Upload(constant.data().data(), tensor.data, bytes, nullptr));
  return tensor;
}

}  // namespace

absl::StatusOr<wire::Graph> WithLargeConstantsAsInputs(
    const wire::Graph& graph) {
  // What a kernel may count on: every allocator gives more.
  constexpr uint32_t kAlignmentBytes = 16;
  wire::Graph out;
  RETURN_IF_ERROR(CheckKnown(graph));
  out.set_name(graph.name());
  *out.mutable_symbols() = graph.symbols();
  *out.mutable_inputs() = graph.inputs();
  *out.mutable_nodes() = graph.nodes();
  *out.mutable_outputs() = graph.outputs();
  *out.mutable_kernel_words() = graph.kernel_words();
  Numbers now(graph.inputs_size() + graph.constants_size());
  for (int i = 0; i < graph.inputs_size(); ++i) now[i] = i;
  for (int i = 0; i < graph.constants_size(); ++i) {
    const wire::Constant& constant = graph.constants(i);
    if (!IsLarge(constant)) continue;
    RETURN_IF_ERROR(
        Annotate(CheckData(constant), absl::StrCat("constant ", i)));
    now[graph.inputs_size() + i] = out.inputs_size();
    wire::Input& input = *out.add_inputs();
    input.set_name(constant.name());
    *input.mutable_tensor() = constant.tensor();
    input.set_alignment_bytes(kAlignmentBytes);
  }
  for (int i = 0; i < graph.constants_size(); ++i) {
    if (IsLarge(graph.constants(i))) continue;
    now[graph.inputs_size() + i] = out.inputs_size() + out.constants_size();
    *out.add_constants() = graph.constants(i);
  }
  if (out.inputs_size() > graph.inputs_size()) Renumber(now, out);
  return out;
}

absl::StatusOr<std::vector<InputValue>> UploadLargeConstants(
    const wire::Graph& graph, const OpenedDevice& on) {
  std::vector<InputValue> values;
  for (const wire::Constant& constant : graph.constants()) {
    if (!IsLarge(constant)) continue;
    ASSIGN_OR_RETURN(Tensor tensor, Upload(constant, on));
    values.push_back(std::move(tensor));
  }
  if (!values.empty()) RETURN_IF_ERROR(on.device->Synchronize(nullptr));
  return values;
}

absl::Status CheckConstantsStay(const wire::LaunchPlan& plan, int count) {
  for (int i = plan.inputs_size() - count; i < plan.inputs_size(); ++i) {
    if (!plan.inputs(i).mutated()) continue;
    return MakeError(
        ErrorReason::kUnsupportedOp,
        absl::StrCat("the graph writes to a constant of over ",
                     kMaxConstantBytes, " bytes; pass it as an input instead"));
  }
  return absl::OkStatus();
}

RunWithConstants::RunWithConstants(absl::Span<const InputView> callers,
                                   absl::Span<const InputValue> constants,
                                   const RunOptions& options)
    : callers_(static_cast<int32_t>(callers.size())),
      observer_(options.inputs),
      options_(options) {
  inputs_.reserve(callers.size() + constants.size());
  inputs_.insert(inputs_.end(), callers.begin(), callers.end());
  for (const InputValue& constant : constants) {
    inputs_.push_back(ViewOf(constant));
  }
  if (observer_ != nullptr) options_.inputs = this;
}

void RunWithConstants::Done(int32_t input) {
  if (input < callers_) observer_->Done(input);
}

}  // namespace kiln

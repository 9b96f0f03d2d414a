#include "client/graph_builder.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

void AppendCode(const wire::SymExpr& from, wire::SymExpr& to) {
  if (from.code_size() > 0) {
    to.mutable_code()->MergeFrom(from.code());
    return;
  }
  wire::SymInstruction* constant = to.add_code();
  constant->set_op(wire::SYM_OP_CONSTANT);
  constant->set_value(from.value());
}

SizeExpr Combine(wire::SymOp op, const SizeExpr& a, const SizeExpr& b) {
  wire::SymExpr out;
  AppendCode(a.wire(), out);
  AppendCode(b.wire(), out);
  out.add_code()->set_op(op);
  return SizeExpr(std::move(out));
}

bool BothConstant(const SizeExpr& a, const SizeExpr& b) {
  return a.constant().has_value() && b.constant().has_value();
}

}  // namespace

std::optional<int64_t> SizeExpr::constant() const {
  if (expr_.code_size() > 0) return std::nullopt;
  return expr_.value();
}

SizeExpr operator+(const SizeExpr& a, const SizeExpr& b) {
  if (BothConstant(a, b)) return *a.constant() + *b.constant();
  return Combine(wire::SYM_OP_ADD, a, b);
}

SizeExpr operator*(const SizeExpr& a, const SizeExpr& b) {
  if (BothConstant(a, b)) return *a.constant() * *b.constant();
  if (a.constant() == 1) return b;
  if (b.constant() == 1) return a;
  return Combine(wire::SYM_OP_MUL, a, b);
}

SizeExpr operator-(const SizeExpr& a, const SizeExpr& b) {
  return a + SizeExpr(-1) * b;
}

SizeExpr FloorDiv(const SizeExpr& a, const SizeExpr& b) {
  return Combine(wire::SYM_OP_FLOORDIV, a, b);
}

Arg::Arg(const SizeExpr& size) {
  if (size.constant().has_value()) {
    wire_.set_int_value(*size.constant());
  } else {
    *wire_.mutable_sym() = size.wire();
  }
}

Arg Arg::None() {
  Arg out;
  out.wire_.mutable_none();
  return out;
}

Arg Arg::List(const std::vector<Arg>& items) {
  Arg out;
  out.wire_.mutable_list();
  for (const Arg& item : items) {
    *out.wire_.mutable_list()->add_items() = item.wire();
  }
  return out;
}

GraphBuilder::GraphBuilder(absl::string_view name, wire::DeviceType device)
    : device_(device) {
  graph_.set_name(std::string(name));
}

SizeExpr GraphBuilder::Symbol(absl::string_view name, const SymbolSpec& spec) {
  wire::SymExpr expr;
  wire::SymInstruction* push = expr.add_code();
  push->set_op(wire::SYM_OP_SYMBOL);
  push->set_value(graph_.symbols_size());
  wire::Symbol* symbol = graph_.add_symbols();
  symbol->set_name(std::string(name));
  symbol->set_hint(spec.hint);
  symbol->set_min(spec.min);
  symbol->set_max(spec.max);
  return SizeExpr(std::move(expr));
}

Value GraphBuilder::Input(absl::string_view name, const TensorSpec& spec,
                          uint32_t alignment_bytes) {
  wire::Input* input = graph_.add_inputs();
  input->set_name(std::string(name));
  constexpr uint32_t kWidestLoad = 16;
  const bool wide = alignment_bytes == 0 && device_ == wire::DEVICE_TYPE_CUDA;
  input->set_alignment_bytes(wide ? kWidestLoad : alignment_bytes);
  *input->mutable_tensor() = Meta(spec);
  return NextValue(graph_.constants_size() == 0);
}

Value GraphBuilder::Constant(absl::string_view name, const TensorSpec& spec,
                             absl::string_view data) {
  int64_t due = SizeInBytes(spec.dtype);
  for (const SizeExpr& size : spec.sizes) due *= size.constant().value_or(0);
  if (due != static_cast<int64_t>(data.size())) {
    Fail(absl::StrCat("constant ", name, ": found ", data.size(),
                      " bytes, expected ", due));
  }
  wire::Constant* constant = graph_.add_constants();
  constant->set_name(std::string(name));
  *constant->mutable_tensor() = Meta(spec);
  constant->set_data(std::string(data));
  return NextValue(true);
}

Value GraphBuilder::Node(absl::string_view op, std::initializer_list<Arg> args,
                         const TensorSpec& result,
                         std::initializer_list<NamedArg> named) {
  return Nodes(op, args, {result}, named)[0];
}

std::vector<Value> GraphBuilder::Nodes(absl::string_view op,
                                       std::initializer_list<Arg> args,
                                       const std::vector<TensorSpec>& results,
                                       std::initializer_list<NamedArg> named) {
  wire::Node* node = graph_.add_nodes();
  node->set_op(std::string(op));
  for (const Arg& arg : args) *node->add_args() = arg.wire();
  for (const NamedArg& arg : named) {
    wire::NamedArgument* added = node->add_kwargs();
    added->set_name(arg.name);
    *added->mutable_value() = arg.value.wire();
  }
  std::vector<Value> values;
  for (const TensorSpec& result : results) {
    *node->add_results() = Meta(result);
    values.push_back(Value(next_value_++));
  }
  return values;
}

void GraphBuilder::Output(Value value) {
  graph_.add_outputs()->set_value(value.number());
}

absl::StatusOr<wire::Graph> GraphBuilder::Build() const {
  if (!status_.ok()) return status_;
  return graph_;
}

// The number of an input or constant; `leads` is false when something that must
// stand behind it is there already.
Value GraphBuilder::NextValue(bool leads) {
  if (!leads || graph_.nodes_size() > 0) {
    Fail(absl::StrCat("value ", next_value_,
                      ": inputs come first, then constants, then nodes"));
  }
  return Value(next_value_++);
}

wire::TensorMeta GraphBuilder::Meta(const TensorSpec& spec) {
  wire::TensorMeta meta;
  meta.set_dtype(ToWire(spec.dtype));
  meta.set_device(device_);
  for (const SizeExpr& size : spec.sizes) *meta.add_sizes() = size.wire();
  *meta.mutable_storage_offset() = spec.storage_offset.wire();
  std::vector<SizeExpr> strides = spec.strides;
  if (strides.empty()) {
    SizeExpr step = 1;
    for (size_t d = spec.sizes.size(); d-- > 0;) {
      strides.insert(strides.begin(), step);
      // As PyTorch has it: a dimension of size 0 counts as 1.
      if (spec.sizes[d].constant() != 0) step = step * spec.sizes[d];
    }
  }
  if (strides.size() != spec.sizes.size()) {
    Fail(absl::StrCat("tensor of rank ", spec.sizes.size(), ": found ",
                      strides.size(), " strides"));
  }
  for (const SizeExpr& stride : strides) *meta.add_strides() = stride.wire();
  return meta;
}

void GraphBuilder::Fail(absl::string_view message) {
  if (status_.ok()) {
    status_ = MakeError(ErrorReason::kMalformedGraph, message);
  }
}

}  // namespace kiln

#include "compiler/reference/ref_call.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln {

void RefCall::Fail(absl::string_view what) {
  if (!status_.ok()) return;
  status_ =
      absl::InternalError(absl::StrCat("reference of ", op_.name, ": ", what));
}

const Argument* RefCall::Find(absl::string_view name) const {
  const std::vector<Param>& params = op_.schema.params;
  for (size_t i = 0; i < params.size() && i < args_.size(); ++i) {
    if (params[i].name == name) return &args_[i];
  }
  return nullptr;
}

const Argument& RefCall::Get(absl::string_view name) {
  static const Argument kAbsent;
  const Argument* arg = Find(name);
  if (arg != nullptr) return *arg;
  Fail(absl::StrCat("no parameter ", name, " in its schema"));
  return kAbsent;
}

bool RefCall::Has(absl::string_view name) const {
  const Argument* arg = Find(name);
  return arg != nullptr && !arg->is_none();
}

int64_t RefCall::Evaluate(const SymExpr& e) const {
  return e.Evaluate([this](Var var) { return state_.symbols[var.index]; });
}

RefNumber RefCall::ToNumber(const Argument& arg) {
  RefNumber number;
  if (const double* f = std::get_if<double>(&arg.v)) {
    number.floating = true;
    number.f = *f;
  } else if (const bool* b = std::get_if<bool>(&arg.v)) {
    number.i = *b;
  } else if (const SymExpr* e = std::get_if<SymExpr>(&arg.v)) {
    number.i = Evaluate(*e);
  } else {
    Fail("an argument is not a number");
  }
  return number;
}

RefTensor RefCall::ToTensor(const Argument& arg) {
  if (arg.is_value()) return state_.values[arg.value().index];
  if (arg.is_none()) return RefTensor();
  const RefNumber number = ToNumber(arg);
  // A Python float is a double until it meets a tensor.
  RefTensor t =
      RefTensor::Zeros(std::holds_alternative<bool>(arg.v) ? DType::kBool
                       : number.floating                   ? DType::kFloat64
                                                           : DType::kInt64,
                       {});
  Elements e = number.floating ? Elements::Floats({}, number.f)
                               : Elements::Ints({}, number.i);
  Store(e, t);
  return t;
}

RefTensor RefCall::Tensor(absl::string_view name) {
  RefTensor t = ToTensor(Get(name));
  if (!t.defined()) {
    Fail(absl::StrCat(name, " is no tensor"));
    return RefTensor::Zeros(DType::kFloat32, {});
  }
  return t;
}

Elements RefCall::Load(absl::string_view name) {
  return kiln::Load(Tensor(name));
}

std::vector<RefTensor> RefCall::Tensors(absl::string_view name) {
  const Argument& arg = Get(name);
  std::vector<RefTensor> tensors;
  if (!arg.is_list()) {
    Fail(absl::StrCat(name, " is no list"));
    return tensors;
  }
  for (const Argument& item : arg.list()) tensors.push_back(ToTensor(item));
  return tensors;
}

int64_t RefCall::Int(absl::string_view name) {
  const RefNumber number = ToNumber(Get(name));
  return number.floating ? static_cast<int64_t>(number.f) : number.i;
}

Sizes RefCall::Ints(absl::string_view name) {
  const Argument& arg = Get(name);
  Sizes ints;
  if (arg.is_none()) return ints;
  if (!arg.is_list()) return {Int(name)};
  for (const Argument& item : arg.list()) ints.push_back(ToNumber(item).i);
  return ints;
}

DType RefCall::ScalarType(absl::string_view name) {
  const DType* const dtype = std::get_if<DType>(&Get(name).v);
  if (dtype != nullptr) return *dtype;
  Fail("an argument is not a dtype");
  return DType::kFloat32;
}

double RefCall::Float(absl::string_view name) { return Number(name).F(); }

RefNumber RefCall::Number(absl::string_view name) {
  const Argument& arg = Get(name);
  if (!arg.is_value()) return ToNumber(arg);
  // A 0-d tensor may stand for a number.
  const Elements e = kiln::Load(ToTensor(arg));
  RefNumber number;
  number.floating = e.floating;
  if (e.floating) {
    number.f = e.F(0);
  } else {
    number.i = e.I(0);
  }
  return number;
}

std::vector<RefNumber> RefCall::Numbers(absl::string_view name) {
  std::vector<RefNumber> numbers;
  const Argument& arg = Get(name);
  if (!arg.is_list()) return numbers;
  for (const Argument& item : arg.list()) numbers.push_back(ToNumber(item));
  return numbers;
}

bool RefCall::Bool(absl::string_view name) {
  const Argument& arg = Get(name);
  return !arg.is_none() && ToNumber(arg).F() != 0;
}

std::vector<bool> RefCall::Bools(absl::string_view name) {
  std::vector<bool> flags;
  for (const RefNumber& n : Numbers(name)) flags.push_back(n.F() != 0);
  return flags;
}

std::string RefCall::String(absl::string_view name) {
  const Argument& arg = Get(name);
  if (arg.is_none()) return "";
  if (const std::string* text = std::get_if<std::string>(&arg.v)) return *text;
  Fail(absl::StrCat(name, " is no string"));
  return "";
}

bool RefCall::IsNumber(absl::string_view name) const {
  const Argument* arg = Find(name);
  return arg != nullptr && !arg->is_value();
}

RefTensor RefCall::Make(int i, const Elements& elements) {
  if (i >= num_results()) {
    Fail(absl::StrCat("result ", i, " is not in the graph"));
    return RefTensor();
  }
  const RefMeta& due = results_[i];
  RefTensor t = RefTensor::Zeros(due.dtype, due.sizes, due.strides);
  if (due.sizes != elements.sizes) {
    Fail(absl::StrCat("result ", i, ": found [",
                      absl::StrJoin(elements.sizes, ", "), "], expected [",
                      absl::StrJoin(due.sizes, ", "), "]"));
    return t;
  }
  Store(elements, t);
  return t;
}

}  // namespace kiln

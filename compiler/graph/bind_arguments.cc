#include "compiler/graph/bind_arguments.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

bool IsInt(const Argument& a) { return std::holds_alternative<SymExpr>(a.v); }
bool IsFloating(const Argument& a) {
  return std::holds_alternative<double>(a.v);
}
bool IsBool(const Argument& a) { return std::holds_alternative<bool>(a.v); }
bool IsNumber(const Argument& a) {
  return IsInt(a) || IsFloating(a) || IsBool(a);
}

template <typename Predicate>
bool IsListOf(const Argument& a, Predicate is_item) {
  if (!a.is_list()) return false;
  for (const Argument& item : a.list()) {
    if (!is_item(item)) return false;
  }
  return true;
}

bool IsOptional(ParamType type) {
  switch (type) {
    case ParamType::kOptionalTensor:
    case ParamType::kOptionalInt:
    case ParamType::kOptionalIntList:
    case ParamType::kOptionalFloat:
    case ParamType::kOptionalFloatList:
    case ParamType::kOptionalBool:
    case ParamType::kOptionalScalar:
    case ParamType::kOptionalString:
    case ParamType::kOptionalDType:
    case ParamType::kMemoryFormat:
    case ParamType::kDevice:
    case ParamType::kLayout:
    case ParamType::kGenerator:
      return true;
    case ParamType::kTensor:
    case ParamType::kTensorList:
    case ParamType::kOptionalTensorList:
    case ParamType::kInt:
    case ParamType::kIntList:
    case ParamType::kFloat:
    case ParamType::kFloatList:
    case ParamType::kBool:
    case ParamType::kBoolList:
    case ParamType::kScalar:
    case ParamType::kString:
    case ParamType::kDType:
      return false;
  }
  return false;
}

// Brings `a` into the form the parameter has; false when it does not fit.
bool Fit(const Param& param, Argument& a) {
  if (a.is_none()) return IsOptional(param.type);
  switch (param.type) {
    case ParamType::kTensor:
      return a.is_value() || (TakesWrappedNumber(param) && IsNumber(a));
    case ParamType::kOptionalTensor:
      return a.is_value();
    case ParamType::kTensorList:
      return IsListOf(a, [](const Argument& i) { return i.is_value(); });
    case ParamType::kOptionalTensorList:
      return IsListOf(
          a, [](const Argument& i) { return i.is_value() || i.is_none(); });
    case ParamType::kInt:
    case ParamType::kOptionalInt:
      return IsInt(a);
    case ParamType::kIntList:
    case ParamType::kOptionalIntList:
      if (IsInt(a)) {
        a = Argument(Argument::List(param.list_size > 0 ? param.list_size : 1,
                                    Argument(a)));
      }
      return IsListOf(a, IsInt);
    case ParamType::kFloat:
    case ParamType::kOptionalFloat:
      if (IsInt(a) && a.sym().is_constant()) {
        a = Argument(static_cast<double>(a.sym().constant()));
      }
      return IsFloating(a);
    case ParamType::kFloatList:
    case ParamType::kOptionalFloatList:
      return IsListOf(a, IsFloating);
    case ParamType::kBool:
    case ParamType::kOptionalBool:
      if (IsInt(a) && a.sym().is_constant()) {
        a = Argument(a.sym().constant() != 0);
      }
      return IsBool(a);
    case ParamType::kBoolList:
      return IsListOf(a, IsBool);
    case ParamType::kScalar:
    case ParamType::kOptionalScalar:
      return IsNumber(a);
    case ParamType::kString:
    case ParamType::kOptionalString:
      return std::holds_alternative<std::string>(a.v);
    case ParamType::kDType:
    case ParamType::kOptionalDType:
      return std::holds_alternative<DType>(a.v);
    case ParamType::kMemoryFormat:
      return std::holds_alternative<MemoryFormat>(a.v);
    case ParamType::kDevice:
      return std::holds_alternative<DeviceType>(a.v);
    case ParamType::kLayout:
      return std::holds_alternative<std::string>(a.v);
    case ParamType::kGenerator:
      return false;  // seeds are the run's
  }
  return false;
}

absl::Status Malformed(const OpDef& op, absl::string_view param,
                       absl::string_view what) {
  return MakeError(ErrorReason::kMalformedGraph,
                   absl::StrCat(op.name, ": argument ", param, " ", what));
}

}  // namespace

bool TakesWrappedNumber(const Param& param) {
  return param.type == ParamType::kTensor &&
         (param.name == "other" || param.name == "exponent" ||
          param.name == "value" || param.name == "b");
}

absl::string_view TypeText(ParamType type) {
  switch (type) {
    case ParamType::kTensor:
      return "Tensor";
    case ParamType::kOptionalTensor:
      return "Tensor?";
    case ParamType::kTensorList:
      return "Tensor[]";
    case ParamType::kOptionalTensorList:
      return "Tensor?[]";
    case ParamType::kInt:
      return "int";
    case ParamType::kOptionalInt:
      return "int?";
    case ParamType::kIntList:
      return "int[]";
    case ParamType::kOptionalIntList:
      return "int[]?";
    case ParamType::kFloat:
      return "float";
    case ParamType::kOptionalFloat:
      return "float?";
    case ParamType::kFloatList:
      return "float[]";
    case ParamType::kOptionalFloatList:
      return "float[]?";
    case ParamType::kBool:
      return "bool";
    case ParamType::kOptionalBool:
      return "bool?";
    case ParamType::kBoolList:
      return "bool[]";
    case ParamType::kScalar:
      return "Scalar";
    case ParamType::kOptionalScalar:
      return "Scalar?";
    case ParamType::kString:
      return "str";
    case ParamType::kOptionalString:
      return "str?";
    case ParamType::kDType:
      return "ScalarType";
    case ParamType::kOptionalDType:
      return "ScalarType?";
    case ParamType::kMemoryFormat:
      return "MemoryFormat?";
    case ParamType::kDevice:
      return "Device?";
    case ParamType::kLayout:
      return "Layout?";
    case ParamType::kGenerator:
      return "Generator? (none)";
  }
  return "?";
}

absl::StatusOr<Arguments> BindArguments(
    const OpDef& op, Arguments positional,
    absl::Span<const std::pair<absl::string_view, Argument>> by_name) {
  const std::vector<Param>& params = op.schema.params;
  if (positional.size() > params.size()) {
    return MakeError(
        ErrorReason::kMalformedGraph,
        absl::StrCat(op.name, ": ", positional.size(),
                     " arguments, expected at most ", params.size()));
  }
  const size_t given = positional.size();
  Arguments bound = std::move(positional);
  bound.reserve(params.size());
  for (size_t i = given; i < params.size(); ++i) {
    bound.push_back(params[i].default_value);
  }
  uint64_t named = 0;
  for (const auto& [name, value] : by_name) {
    size_t i = 0;
    while (i < params.size() && params[i].name != name) ++i;
    if (i == params.size()) {
      return Malformed(op, name.substr(0, 100), "is not one of the operator's");
    }
    if (i < given || (named >> i & 1) != 0) {
      return Malformed(op, name, "is given twice");
    }
    named |= uint64_t{1} << i;
    bound[i] = value;
  }
  for (size_t i = 0; i < params.size(); ++i) {
    const bool absent = i >= given && (named >> i & 1) == 0;
    if (absent && !params[i].has_default) {
      if (IsOptional(params[i].type)) continue;
      return Malformed(op, params[i].name, "is missing");
    }
    if (!Fit(params[i], bound[i]) && !(absent && bound[i].is_none())) {
      return Malformed(op, params[i].name,
                       absl::StrCat("is of a wrong type, expected ",
                                    TypeText(params[i].type)));
    }
  }
  return bound;
}

}  // namespace kiln

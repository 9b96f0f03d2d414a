#include "compiler/graph_passes/decompose/decomposition.h"

#include <algorithm>
#include <string>
#include <variant>

#include "proto/base/status.h"

namespace kiln {

const Argument& Decomposition::Get(absl::string_view name) const {
  static const Argument kAbsent;
  const std::vector<Param>& params = op_.schema.params;
  for (size_t i = 0; i < params.size() && i < args_.size(); ++i) {
    if (params[i].name == name) return args_[i];
  }
  return kAbsent;
}

std::vector<ValueId> Decomposition::Tensors(absl::string_view name) const {
  std::vector<ValueId> values;
  for (const Argument& item : Get(name).list()) values.push_back(item.value());
  return values;
}

DimVector Decomposition::Ints(absl::string_view name) const {
  DimVector ints;
  const Argument& arg = Get(name);
  if (arg.is_none()) return ints;
  if (!arg.is_list()) return {arg.sym()};
  for (const Argument& item : arg.list()) ints.push_back(item.sym());
  return ints;
}

int64_t Decomposition::Int(absl::string_view name) const {
  return Fixed(Get(name).sym(), name);
}

int64_t Decomposition::Fixed(const SymExpr& number,
                             absl::string_view name) const {
  return e.graph().shapes.Specialize(number, absl::StrCat(op_.name, " ", name));
}

std::vector<int64_t> Decomposition::FixedInts(absl::string_view name) const {
  std::vector<int64_t> ints;
  for (const SymExpr& number : Ints(name)) ints.push_back(Fixed(number, name));
  return ints;
}

std::vector<int64_t> Decomposition::Dims(absl::string_view name,
                                         int rank) const {
  std::vector<int64_t> dims;
  for (const int64_t d : FixedInts(name)) {
    if (rank > 0) dims.push_back(d < 0 ? d + rank : d);
  }
  if (dims.empty()) dims = DimRange(0, rank);
  std::sort(dims.begin(), dims.end());
  return dims;
}

int64_t Decomposition::Dim(absl::string_view name, int rank) const {
  const int64_t d = Int(name);
  return d < 0 ? d + std::max(rank, 1) : d;
}

double Decomposition::Float(absl::string_view name) const {
  const Argument& arg = Get(name);
  if (const double* f = std::get_if<double>(&arg.v)) return *f;
  if (const bool* b = std::get_if<bool>(&arg.v)) return *b;
  return static_cast<double>(Fixed(arg.sym(), name));
}

bool Decomposition::Bool(absl::string_view name) const {
  const bool* b = std::get_if<bool>(&Get(name).v);
  return b != nullptr && *b;
}

std::vector<bool> Decomposition::Bools(absl::string_view name) const {
  std::vector<bool> flags;
  for (const Argument& item : Get(name).list()) {
    flags.push_back(std::get<bool>(item.v));
  }
  return flags;
}

absl::string_view Decomposition::String(absl::string_view name) const {
  const std::string* text = std::get_if<std::string>(&Get(name).v);
  return text == nullptr ? absl::string_view() : absl::string_view(*text);
}

Emitter::Keep Decomposition::Keepdim() const {
  return Bool("keepdim") ? Emitter::Keep::kYes : Emitter::Keep::kNo;
}

Parts Decomposition::Unsupported(absl::string_view what) {
  e.Fail(MakeError(ErrorReason::kUnsupportedOp, what));
  return {};
}

std::vector<int64_t> OtherDims(absl::Span<const int64_t> dims, int rank) {
  std::vector<int64_t> others;
  for (int64_t d = 0; d < rank; ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) {
      others.push_back(d);
    }
  }
  return others;
}

std::vector<int64_t> DimRange(int64_t first, int64_t last) {
  std::vector<int64_t> dims;
  for (int64_t d = first; d < last; ++d) dims.push_back(d);
  return dims;
}

}  // namespace kiln

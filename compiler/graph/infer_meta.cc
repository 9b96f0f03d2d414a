#include "compiler/graph/infer_meta.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int kMaxRank = 64;

// By the hints, without overflow.
absl::Status CheckSizes(const OpDef& op, const TensorMeta& meta,
                        const ShapeEnv& shapes) {
  if (meta.rank() > kMaxRank) {
    return MakeError(ErrorReason::kTooLarge,
                     absl::StrCat(op.name, ": result of ", meta.rank(),
                                  " dimensions, expected at most ", kMaxRank));
  }
  int64_t elements = 1;
  bool too_large = false;
  for (const SymExpr& size : meta.sizes) {
    const int64_t n = size.is_constant() ? size.constant() : shapes.Hint(size);
    if (n < 0) {
      return MakeError(ErrorReason::kMalformedGraph,
                       absl::StrCat(op.name, ": result ", ToText(meta),
                                    ", expected sizes of 0 or more"));
    }
    if (n == 0) return absl::OkStatus();
    too_large = too_large || n >= kMaxElements || elements >= kMaxElements / n;
    if (!too_large) elements *= n;
  }
  if (!too_large) return absl::OkStatus();
  return MakeError(ErrorReason::kTooLarge,
                   absl::StrCat(op.name, ": result ", ToText(meta),
                                ", expected less than 2^40 elements"));
}

}  // namespace

std::vector<const TensorMeta*> InferInput::tensors(size_t i) const {
  std::vector<const TensorMeta*> out;
  if (!args[i].is_list()) return out;
  for (const Argument& item : args[i].list()) {
    if (item.is_value()) out.push_back(&meta_of(item));
  }
  return out;
}

int64_t InferInput::integer(size_t i) const {
  return shapes.Specialize(args[i].sym(), schema.params[i].name);
}

bool InferInput::flag(size_t i) const {
  const bool* flag = std::get_if<bool>(&args[i].v);
  return flag != nullptr && *flag;
}

DimVector InferInput::ints(size_t i) const {
  DimVector out;
  if (!args[i].is_list()) return out;
  for (const Argument& item : args[i].list()) out.push_back(item.sym());
  return out;
}

std::vector<int64_t> InferInput::fixed_ints(size_t i) const {
  std::vector<int64_t> out;
  for (const SymExpr& e : ints(i)) {
    out.push_back(shapes.Specialize(e, schema.params[i].name));
  }
  return out;
}

std::optional<DType> InferInput::dtype(size_t i) const {
  const DType* dtype = std::get_if<DType>(&args[i].v);
  return dtype == nullptr ? std::nullopt : std::optional<DType>(*dtype);
}

absl::StatusOr<TensorMetas> InferMeta(
    const OpDef& op, absl::Span<const Argument> args,
    absl::FunctionRef<const TensorMeta&(const Argument&)> meta_of,
    ShapeEnv& shapes, DeviceType device) {
  const OpDef& rule = op.functional != nullptr ? *op.functional : op;
  const InferInput input{op.schema, args, meta_of, shapes, device};
  absl::StatusOr<TensorMetas> metas = rule.infer(input);
  if (!metas.ok()) return Annotate(metas.status(), op.name);
  if (op.functional != nullptr) {
    const TensorMeta& self = input.tensor(0);
    const DimVector& computed = metas->front().sizes;
    bool equal = computed.size() == self.sizes.size();
    for (size_t i = 0; equal && i < computed.size(); ++i) {
      equal = shapes.DecideEq(computed[i], self.sizes[i], op.name);
    }
    if (!equal) {
      return MakeError(ErrorReason::kMalformedGraph,
                       absl::StrCat(op.name, ": writes ", ToText(computed),
                                    " into ", ToText(self)));
    }
    return TensorMetas{self};
  }
  for (const TensorMeta& meta : *metas) {
    if (meta.defined) RETURN_IF_ERROR(CheckSizes(op, meta, shapes));
  }
  return metas;
}

}  // namespace kiln

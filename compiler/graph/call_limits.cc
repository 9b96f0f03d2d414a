#include "compiler/graph/call_limits.h"

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_table.h"
#include "compiler/graph/type_promotion.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Why a call is not compiled; empty when it is.
using LimitFn = std::string (*)(const InferInput& call);

// The library calls, and what is taken apart into them.
std::string Product(const InferInput& call) {
  const DType dtype = call.tensor(0).dtype;
  const bool taken =
      IsFloat(dtype) || dtype == DType::kInt32 || dtype == DType::kInt64;
  return taken ? "" : absl::StrCat("a product of ", ShortName(dtype));
}

std::string FloatsOnly(const InferInput& call) {
  const DType dtype = call.tensor(0).dtype;
  return IsFloat(dtype) ? "" : absl::StrCat("dtype ", ShortName(dtype));
}

std::string SumOfBools(const InferInput& call) {
  return call.tensor(0).dtype == DType::kBool ? "sums of booleans" : "";
}

template <size_t accumulate>
std::string PutOfBools(const InferInput& call) {
  return call.flag(accumulate) ? SumOfBools(call) : "";
}

constexpr char kOfElements[] = "a reduction of elements";
constexpr char kNoElements[] = "no elements to choose from";

// Whether one of the dims that argument `at` names has no elements; absent or
// empty it names all.
bool IsEmpty(const InferInput& call, size_t at) {
  const TensorMeta& self = call.tensor(0);
  std::vector<int64_t> dims;
  if (at < call.args.size() && call.args[at].is_list()) {
    dims = call.fixed_ints(at);
  } else if (at < call.args.size() && call.has(at)) {
    dims.push_back(call.integer(at));
  }
  const auto reduced = DimMask(dims, self.rank());
  if (!reduced.ok()) return false;  // inference says it
  for (int d = 0; d < self.rank(); ++d) {
    if ((*reduced)[d] && !call.shapes.DecideLt(0, self.sizes[d], kOfElements)) {
      return true;
    }
  }
  return false;
}

template <size_t dims>
std::string OfSome(const InferInput& call) {
  return IsEmpty(call, dims) ? kNoElements : "";
}
// No such argument: over all dims.
constexpr LimitFn kOfAll = OfSome<~size_t{0}>;

// Norms of infinite or negative order choose an element, the others sum.
bool Chooses(const InferInput& norm) {
  const Argument& order = norm.args[1];
  if (const double* number = std::get_if<double>(&order.v)) {
    return std::isinf(*number) || *number < 0;
  }
  return std::holds_alternative<SymExpr>(order.v) && norm.integer(1) < 0;
}

template <size_t dims>
std::string Norm(const InferInput& call) {
  return Chooses(call) ? OfSome<dims>(call) : "";
}

// A list's: of all elements of each member.
std::string Norms(const InferInput& call) {
  const std::vector<const TensorMeta*> members = call.tensors(0);
  if (members.empty()) return "no tensors";
  if (std::holds_alternative<bool>(call.args[1].v)) return "a boolean order";
  for (const TensorMeta* member : members) {
    if (!IsFloat(member->dtype)) {
      return absl::StrCat("dtype ", ShortName(member->dtype));
    }
    const DType to = call.dtype(2).value_or(member->dtype);
    if (PromoteTypes(member->dtype, to) != to) {
      return absl::StrCat("dtype ", ShortName(member->dtype), " as ",
                          ShortName(to));
    }
    for (const SymExpr& size : member->sizes) {
      if (Chooses(call) && !call.shapes.DecideLt(0, size, kOfElements)) {
        return kNoElements;
      }
    }
  }
  return "";
}

bool IsZero(const InferInput& call, const Argument& number) {
  if (const bool* flag = std::get_if<bool>(&number.v)) return !*flag;
  const SymExpr* e = std::get_if<SymExpr>(&number.v);
  return e != nullptr && call.shapes.DecideEq(*e, 0, "a divisor");
}

std::string Divisor(const InferInput& call) {
  const bool integers = !IsFloat(call.tensor(0).dtype);
  return integers && IsZero(call, call.args[1]) ? "an integer divided by 0"
                                                : "";
}

// Without a rounding mode the quotient is a float.
std::string RoundedDivisor(const InferInput& call) {
  return call.has(2) ? Divisor(call) : "";
}

struct LimitRow {
  absl::string_view op;
  LimitFn limit;
};

constexpr LimitRow kRows[] = {
    {"aten.mm.default", Product},
    {"aten.bmm.default", Product},
    {"aten.addmm.default", Product},
    {"aten.baddbmm.default", Product},
    {"aten.mv.default", Product},
    {"aten.addmv.default", Product},
    {"aten.convolution.default", FloatsOnly},
    {"aten.convolution_backward.default", FloatsOnly},
    {"aten.avg_pool2d.default", FloatsOnly},
    {"aten.avg_pool2d_backward.default", FloatsOnly},
    {"aten._adaptive_avg_pool2d.default", FloatsOnly},
    {"aten._adaptive_avg_pool2d_backward.default", FloatsOnly},
    {"aten.put.default", PutOfBools<3>},
    {"aten.index_put.default", PutOfBools<3>},
    {"aten._unsafe_index_put.default", PutOfBools<3>},
    {"aten.index_add.default", SumOfBools},
    {"aten.scatter_add.default", SumOfBools},

    {"aten.max.default", kOfAll},
    {"aten.min.default", kOfAll},
    {"aten.median.default", kOfAll},
    {"aten.nanmedian.default", kOfAll},
    {"aten.max.dim", OfSome<1>},
    {"aten.min.dim", OfSome<1>},
    {"aten.median.dim", OfSome<1>},
    {"aten.nanmedian.dim", OfSome<1>},
    {"aten.amax.default", OfSome<1>},
    {"aten.amin.default", OfSome<1>},
    {"aten.argmax.default", OfSome<1>},
    {"aten.argmin.default", OfSome<1>},
    {"aten.aminmax.default", OfSome<1>},
    {"aten.linalg_vector_norm.default", Norm<2>},
    {"aten.norm.ScalarOpt_dim", Norm<2>},
    {"aten._foreach_norm.Scalar", Norms},

    {"aten.floor_divide.default", Divisor},
    {"aten.floor_divide.Scalar", Divisor},
    {"aten.remainder.Tensor", Divisor},
    {"aten.remainder.Scalar", Divisor},
    {"aten.fmod.Tensor", Divisor},
    {"aten.fmod.Scalar", Divisor},
    {"aten.div.Tensor_mode", RoundedDivisor},
    {"aten.div.Scalar_mode", RoundedDivisor},
};

std::vector<LimitFn> JoinRows() {
  std::vector<LimitFn> table(AllOps().size(), nullptr);
  for (const LimitRow& row : kRows) {
    table[KnownOp(row.op).index] = row.limit;
  }
  return table;
}

}  // namespace

absl::Status CheckCall(Graph& graph, const Node& node) {
  static const std::vector<LimitFn>* const kTable =
      new std::vector<LimitFn>(JoinRows());
  const OpDef& rule =
      node.op->functional != nullptr ? *node.op->functional : *node.op;
  const LimitFn limit = (*kTable)[rule.index];
  if (limit == nullptr) return absl::OkStatus();
  const std::string why =
      limit({node.op->schema, node.args,
             [&graph](const Argument& arg) -> const TensorMeta& {
               return graph.meta(arg.value());
             },
             graph.shapes, graph.device});
  if (why.empty()) return absl::OkStatus();
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat(node.op->name, ": ", why));
}

}  // namespace kiln

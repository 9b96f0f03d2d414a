#include "compiler/graph_passes/fold_constants.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/emitter.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The one number that all elements of a value are.
struct Uniform {
  bool floating = false;
  double f = 0;
  int64_t i = 0;

  double AsFloat() const { return floating ? f : static_cast<double>(i); }
  bool AsBool() const { return floating ? f != 0 : i != 0; }
};
using MaybeUniform = std::optional<Uniform>;

Uniform FromFloat(double f) { return {true, f, 0}; }
Uniform FromInt(int64_t i) { return {false, 0, i}; }

// What a tensor of `dtype` holds of `u`; none where that is for the kernels to
// say: half types, and floats that no integer type holds.
MaybeUniform Rounded(const Uniform& u, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return FromInt(u.AsBool());
    case DType::kInt64:
      if (u.floating && !(std::fabs(u.f) < 0x1p62)) return std::nullopt;
      return FromInt(u.floating ? static_cast<int64_t>(u.f) : u.i);
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32: {
      const double limit = std::ldexp(1.0, 8 * SizeInBytes(dtype) - 1);
      if (!(std::fabs(u.AsFloat()) < limit)) return std::nullopt;
      if (dtype == DType::kUInt8 && u.AsFloat() < 0) return std::nullopt;
      return FromInt(u.floating ? static_cast<int64_t>(u.f) : u.i);
    }
    case DType::kFloat16:
    case DType::kBFloat16: {
      // Small integers are exact in both.
      const double f = u.AsFloat();
      if (std::isinf(f) || (std::fabs(f) <= 256 && f == std::trunc(f))) {
        return FromFloat(f);
      }
      return std::nullopt;
    }
    case DType::kFloat32:
      return FromFloat(static_cast<float>(u.AsFloat()));
    case DType::kFloat64:
      return FromFloat(u.AsFloat());
  }
  return std::nullopt;
}

// One operator on uniform operands, in double or int64.
using FoldFn = MaybeUniform (*)(absl::Span<const Uniform> in);

template <auto fn>
MaybeUniform Arithmetic(absl::Span<const Uniform> in) {
  if (in[0].floating || in[1].floating) {
    return FromFloat(fn(in[0].AsFloat(), in[1].AsFloat()));
  }
  return FromInt(static_cast<int64_t>(
      fn(static_cast<uint64_t>(in[0].i), static_cast<uint64_t>(in[1].i))));
}

template <auto fn>
MaybeUniform Comparison(absl::Span<const Uniform> in) {
  if (in[0].floating || in[1].floating) {
    return FromInt(fn(in[0].AsFloat(), in[1].AsFloat()));
  }
  return FromInt(fn(in[0].i, in[1].i));
}

MaybeUniform Same(absl::Span<const Uniform> in) { return in[0]; }
MaybeUniform Negated(absl::Span<const Uniform> in) {
  return in[0].floating ? FromFloat(-in[0].f) : FromInt(-in[0].i);
}
MaybeUniform Inverted(absl::Span<const Uniform> in) {
  return FromInt(!in[0].AsBool());
}
MaybeUniform Divided(absl::Span<const Uniform> in) {
  return FromFloat(in[0].AsFloat() / in[1].AsFloat());
}
MaybeUniform BothHold(absl::Span<const Uniform> in) {
  return FromInt(in[0].AsBool() && in[1].AsBool());
}
MaybeUniform OneHolds(absl::Span<const Uniform> in) {
  return FromInt(in[0].AsBool() || in[1].AsBool());
}
MaybeUniform Chosen(absl::Span<const Uniform> in) {
  return in[0].AsBool() ? in[1] : in[2];
}

constexpr auto kPlus = [](auto a, auto b) { return a + b; };
constexpr auto kMinus = [](auto a, auto b) { return a - b; };
constexpr auto kTimes = [](auto a, auto b) { return a * b; };
constexpr auto kEq = [](auto a, auto b) { return a == b; };
constexpr auto kNe = [](auto a, auto b) { return a != b; };
constexpr auto kLt = [](auto a, auto b) { return a < b; };
constexpr auto kLe = [](auto a, auto b) { return a <= b; };
constexpr auto kGt = [](auto a, auto b) { return a > b; };
constexpr auto kGe = [](auto a, auto b) { return a >= b; };

struct FoldRow {
  absl::string_view op;
  int operands;  // the first arguments
  FoldFn fold;
};

constexpr FoldRow kRows[] = {
    {"aten.add.Tensor", 2, Arithmetic<kPlus>},
    {"aten.add.Scalar", 2, Arithmetic<kPlus>},
    {"aten.sub.Tensor", 2, Arithmetic<kMinus>},
    {"aten.sub.Scalar", 2, Arithmetic<kMinus>},
    {"aten.mul.Tensor", 2, Arithmetic<kTimes>},
    {"aten.mul.Scalar", 2, Arithmetic<kTimes>},
    {"aten.div.Tensor", 2, Divided},
    {"aten.div.Scalar", 2, Divided},
    {"aten.neg.default", 1, Negated},
    {"aten.eq.Tensor", 2, Comparison<kEq>},
    {"aten.eq.Scalar", 2, Comparison<kEq>},
    {"aten.ne.Tensor", 2, Comparison<kNe>},
    {"aten.ne.Scalar", 2, Comparison<kNe>},
    {"aten.lt.Tensor", 2, Comparison<kLt>},
    {"aten.lt.Scalar", 2, Comparison<kLt>},
    {"aten.le.Tensor", 2, Comparison<kLe>},
    {"aten.le.Scalar", 2, Comparison<kLe>},
    {"aten.gt.Tensor", 2, Comparison<kGt>},
    {"aten.gt.Scalar", 2, Comparison<kGt>},
    {"aten.ge.Tensor", 2, Comparison<kGe>},
    {"aten.ge.Scalar", 2, Comparison<kGe>},
    {"aten.logical_not.default", 1, Inverted},
    {"aten.logical_and.default", 2, BothHold},
    {"aten.logical_or.default", 2, OneHolds},
    {"aten.where.self", 3, Chosen},
    {"aten.clone.default", 1, Same},
    {"aten._to_copy.default", 1, Same},
    {"aten.lift_fresh_copy.default", 1, Same},
    {"prims.convert_element_type.default", 1, Same},
    // The fill itself.
    {"aten.full.default", -1, Same},
    {"aten.full_like.default", -1, Same},
    {"aten.new_full.default", -2, Same},
    {"aten.scalar_tensor.default", 1, Same},
};

// Fills whose number is in their name.
struct FilledRow {
  absl::string_view op;
  int64_t value;
};
constexpr FilledRow kFilled[] = {
    {"aten.zeros.default", 0},     {"aten.zeros_like.default", 0},
    {"aten.new_zeros.default", 0}, {"aten.zero.default", 0},
    {"aten.ones.default", 1},      {"aten.ones_like.default", 1},
    {"aten.new_ones.default", 1},
};

struct Folding {
  const FoldRow* row = nullptr;
  std::optional<int64_t> filled;
};

std::vector<Folding> JoinRows() {
  std::vector<Folding> table(AllOps().size());
  for (const FoldRow& row : kRows) {
    if (const OpDef* op = FindOp(row.op)) table[op->index].row = &row;
  }
  for (const FilledRow& row : kFilled) {
    if (const OpDef* op = FindOp(row.op)) table[op->index].filled = row.value;
  }
  return table;
}

MaybeUniform FromConstant(DType dtype, absl::string_view data) {
  double f64;
  float f32;
  int64_t i64;
  if (dtype == DType::kFloat64 && data.size() == sizeof(f64)) {
    std::memcpy(&f64, data.data(), sizeof(f64));
    return FromFloat(f64);
  }
  if (dtype == DType::kFloat32 && data.size() == sizeof(f32)) {
    std::memcpy(&f32, data.data(), sizeof(f32));
    return FromFloat(f32);
  }
  if (dtype == DType::kInt64 && data.size() == sizeof(i64)) {
    std::memcpy(&i64, data.data(), sizeof(i64));
    return FromInt(i64);
  }
  if (dtype == DType::kBool && data.size() == 1) return FromInt(data[0] != 0);
  return std::nullopt;
}

class Folder {
 public:
  explicit Folder(Graph& graph) : rewriter_(graph), e_(graph) {
    for (const GraphConstant& constant : graph.constants) {
      // In order: constants are values of the new graph already.
      Know(constant.value,
           FromConstant(graph.meta(constant.value).dtype, constant.data));
    }
  }

  absl::StatusOr<Changed> Run() {
    bool changed = false;
    for (uint32_t i = 0; i < rewriter_.num_old_nodes(); ++i) {
      const Node& node = rewriter_.old_node(i);
      const MaybeUniform u = Evaluate(node);
      if (!u.has_value()) {
        changed = KeepWithNumbers(i) || changed;
      } else {
        changed = Fill(i, *u) || changed;
      }
      RETURN_IF_ERROR(e_.status());
    }
    rewriter_.Finish();
    return changed ? Changed::kYes : Changed::kNo;
  }

 private:
  void Know(ValueId v, MaybeUniform u) {
    if (v.index >= uniforms_.size()) uniforms_.resize(v.index + 1);
    uniforms_[v.index] = u;
  }

  // Of an old argument.
  MaybeUniform Of(const Argument& arg) const {
    if (const double* f = std::get_if<double>(&arg.v)) return FromFloat(*f);
    if (const bool* b = std::get_if<bool>(&arg.v)) return FromInt(*b);
    if (const SymExpr* e = std::get_if<SymExpr>(&arg.v)) {
      return e->is_constant() ? MaybeUniform(FromInt(e->constant()))
                              : std::nullopt;
    }
    if (!arg.is_value()) return std::nullopt;
    const ValueId v = rewriter_.Map(arg.value());
    return v.index < uniforms_.size() ? uniforms_[v.index] : std::nullopt;
  }

  // The node's number, in the dtype of its result.
  MaybeUniform Evaluate(const Node& node) const {
    static const std::vector<Folding>* const kTable =
        new std::vector<Folding>(JoinRows());
    if (node.results.size() != 1) return std::nullopt;
    const DType dtype = rewriter_.old_meta(node.results[0]).dtype;
    if (node.op->handling == Handling::kView) {
      const MaybeUniform u = Of(node.args[0]);
      const bool bits = u.has_value() && node.args[0].is_value() &&
                        rewriter_.old_meta(node.args[0].value()).dtype != dtype;
      return bits ? std::nullopt : u;
    }
    const Folding& folding = (*kTable)[node.op->index];
    if (folding.filled.has_value()) {
      return Rounded(FromInt(*folding.filled), dtype);
    }
    if (folding.row == nullptr) return std::nullopt;
    absl::InlinedVector<Uniform, 3> in;
    const int count = folding.row->operands;
    for (int k = count < 0 ? -count : 0; k < (count < 0 ? 1 - count : count);
         ++k) {
      const MaybeUniform u = Of(node.args[k]);
      if (!u.has_value()) return std::nullopt;
      in.push_back(*u);
    }
    // Only add and sub have a third argument that counts: alpha.
    if (count == 2 && node.args.size() > 2 &&
        !(node.args[2] == Argument(1) || node.args[2] == Argument(1.0))) {
      return std::nullopt;
    }
    const MaybeUniform u = folding.row->fold(in);
    return u.has_value() ? Rounded(*u, dtype) : u;
  }

  static Argument Number(const Uniform& u) {
    return u.floating ? Argument(u.f) : Argument(u.i);
  }

  // One aten.full in the node's place. False when that is what it was.
  bool Fill(uint32_t i, const Uniform& u) {
    static const OpDef& kFull = KnownOp("aten.full.default");
    const Node& node = rewriter_.old_node(i);
    const TensorMeta meta = rewriter_.old_meta(node.results[0]);
    const bool is_full = node.op == &kFull;
    ValueId v{0};
    if (is_full) {
      rewriter_.Keep(i);
      v = rewriter_.Map(node.results[0]);
    } else {
      v = e_.Full(meta.sizes, Number(u), meta.dtype);
      rewriter_.Replace(i, {&v, 1});
    }
    Know(v, u);
    return !is_full;
  }

  // The node, and where its second operand is uniform, 0-d or so, a number in
  // its place. The result's dtype must not change by that.
  bool KeepWithNumbers(uint32_t i) {
    static const OpDef* const kTakesNumber[] = {
        &KnownOp("aten.add.Tensor"), &KnownOp("aten.sub.Tensor"),
        &KnownOp("aten.mul.Tensor"), &KnownOp("aten.div.Tensor")};
    const Node& node = rewriter_.old_node(i);
    bool takes = false;
    for (const OpDef* op : kTakesNumber) takes = takes || node.op == op;
    if (!takes || !node.args[0].is_value() || !node.args[1].is_value()) {
      rewriter_.Keep(i);
      return false;
    }
    const TensorMeta meta = rewriter_.old_meta(node.results[0]);
    const TensorMeta& self = rewriter_.old_meta(node.args[0].value());
    const MaybeUniform u = Of(node.args[1]);
    if (!u.has_value() || self.dtype != meta.dtype ||
        self.sizes != meta.sizes || u->floating != IsFloat(meta.dtype)) {
      rewriter_.Keep(i);
      return false;
    }
    Emitter::Args args;
    for (const Argument& arg : node.args) args.push_back(rewriter_.Map(arg));
    args[1] = Number(*u);
    const ValueId v = e_.Call(*node.op, std::move(args));
    rewriter_.Replace(i, {&v, 1});
    return true;
  }

  GraphRewriter rewriter_;
  Emitter e_;
  std::vector<MaybeUniform> uniforms_;  // by new value
};

}  // namespace

absl::StatusOr<Changed> FoldConstants(Graph& graph, const PassEnv&) {
  return Folder(graph).Run();
}

}  // namespace kiln

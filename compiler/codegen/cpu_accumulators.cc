#include "compiler/codegen/cpu_accumulators.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

std::string TypeOf(DType dtype, bool lanes) {
  return lanes ? LaneTypeName(dtype) : std::string(CTypeName(dtype));
}

std::string Converted(DType from, DType to, const std::string& value,
                      bool lanes) {
  return CastText(from, to, value, lanes ? Dialect::kCpuLanes : Dialect::kCpu);
}

const char* TupleName(ReduceOp op) {
  return op == ReduceOp::kArgMax ? "k_argmax_" : "k_argmin_";
}

constexpr int64_t kMostPlace32 = (int64_t{1} << 31) - 1;

std::string CountText(int count) {
  return count > 1 ? absl::StrCat("[", count, "]") : "";
}

}  // namespace

void CpuAccumulators::DeclareOne(const std::string& name, int count,
                                 DType dtype, const std::string& start,
                                 bool lanes) {
  out_.Line(TypeOf(dtype, lanes), " ", name, CountText(count), ";");
  if (count > 1) out_.Open("for (int u = 0; u < ", count, "; ++u)");
  out_.Line(name, count > 1 ? "[u]" : "", " = ",
            lanes ? absl::StrCat("k_splat_", TypeEnding(dtype), "(", start, ")")
                  : start,
            ";");
  if (count > 1) out_.Close();
}

void CpuAccumulators::Declare(ScalarId id, int side_by_side, bool blocks) {
  const ScalarNode& node = nest_.body[id];
  State& s = state_[id];
  s = {body_.Fresh(""), side_by_side, node.dtype, blocks && IsFloatSum(id)};
  const bool runs =
      node.op == ScalarOp::kScan &&
      (node.reduce == ReduceOp::kSum || node.reduce == ReduceOp::kProd ||
       node.reduce == ReduceOp::kLogSumExp);
  if (IsFloat(node.dtype) && (s.blocks || runs)) s.dtype = DType::kFloat64;
  const bool lanes = IsLanes(id);
  DeclareOne(absl::StrCat("a", s.number), side_by_side, s.dtype,
             IdentityText(node.reduce, s.dtype), lanes);
  if (s.blocks)
    DeclareOne(absl::StrCat("b", s.number), side_by_side, node.dtype,
               IdentityText(node.reduce, node.dtype), lanes);
  if (!IsArgReduction(node.reduce)) return;
  s.place = lanes ? PlaceType(id) : DType::kBool;
  if (s.place == DType::kBool) {
    DeclareOne(absl::StrCat("j", s.number), side_by_side, DType::kInt64,
               "9223372036854775807ll", lanes);
    return;
  }
  const SymExpr first = Position(node).Substitute([&](Var var) {
    const bool reduced =
        var.kind == Var::Kind::kAxis && var.index >= body_.facts.num_outer;
    return reduced ? SymExpr(0) : SymExpr::Of(var);
  });
  DeclareOne(absl::StrCat("j", s.number), side_by_side, s.place,
             absl::StrCat(body_.Index(first),
                          by_rows_ && side_by_side > 1 ? " + u * K_LANES" : ""),
             lanes);
}

SymExpr CpuAccumulators::Position(const ScalarNode& node) const {
  return node.args.size() > 1 ? nest_.body[node.args[1]].index[0]
                              : body_.ReducedPosition();
}

DType CpuAccumulators::PlaceType(ScalarId id) const {
  const ScalarNode& node = nest_.body[id];
  const NestFacts& facts = body_.facts;
  const uint32_t last = facts.num_axes - 1;
  const bool given = node.args.size() > 1;
  if (given && (nest_.body[node.args[1]].op != ScalarOp::kIndex ||
                facts.num_axes - facts.num_outer != 1))
    return DType::kBool;
  const SymExpr position = Position(node);
  const bool in_order =
      MotionOf(position, last, facts) == Motion::kContiguous &&
      (by_rows_ ||
       MotionOf(position, body_.vector_axis, facts) == Motion::kStill);
  if (!in_order) return DType::kBool;
  if (SizeInBytes(node.dtype) == 8) return DType::kInt64;
  const SymExpr most = position.Substitute([&](Var var) {
    return var.kind == Var::Kind::kAxis ? facts.extents[var.index]
                                        : SymExpr::Of(var);
  });
  // Side by side they begin a few vectors further on.
  const bool fits = body_.shapes.Range(most).max <= kMostPlace32 - (1 << 16);
  return fits ? DType::kInt32 : DType::kBool;
}

// The running index of a kArgMax or kArgMin, as lanes or one value.
std::string CpuAccumulators::PositionText(const ScalarNode& node,
                                          bool lanes) const {
  if (node.args.size() > 1) return body_.Operand(node.args[1], lanes);
  const std::string first = body_.Index(body_.ReducedPosition());
  if (!lanes) return first;
  return absl::StrCat("k_iota_i64(", first, ", ", by_rows_ ? 1 : 0, ")");
}

absl::StatusOr<std::string> CpuAccumulators::TupleStep(
    ScalarId id, const std::string& at, bool lanes,
    const std::string& count) const {
  const ScalarNode& node = nest_.body[id];
  const std::string& n = state_[id].number;
  if (!IsFloat(node.dtype) && node.dtype != DType::kInt64 &&
      node.dtype != DType::kInt32)
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat("reduction ", ReduceOpName(node.reduce),
                                  " of ", ShortName(node.dtype)));
  const DType place = state_[id].place;
  const std::string position =
      place == DType::kBool ? PositionText(node, lanes)
                            : absl::StrCat("(", CTypeName(place), ")(",
                                           body_.Index(Position(node)), ")");
  return absl::StrCat(TupleName(node.reduce),
                      place == DType::kBool ? TypeEnding(node.dtype) : "next",
                      "(a", n, at, ", j", n, at, ", ",
                      body_.Operand(node.args[0], lanes), ", ", position, count,
                      ");");
}

absl::StatusOr<std::string> CpuAccumulators::Next(ScalarId id,
                                                  const std::string& a,
                                                  bool lanes) const {
  const ScalarNode& node = nest_.body[id];
  const State& s = state_[id];
  const DType into = s.blocks ? node.dtype : s.dtype;
  return CombineText(
      node.reduce, into, a,
      Converted(node.dtype, into, body_.Operand(node.args[0], lanes), lanes));
}

absl::Status CpuAccumulators::RowStep(ScalarId id, const std::string& at) {
  const State& s = state_[id];
  if (IsArgReduction(nest_.body[id].reduce)) {
    ASSIGN_OR_RETURN(const std::string step, TupleStep(id, at, true, ", m"));
    out_.Line(step);
    return absl::OkStatus();
  }
  const std::string a = absl::StrCat(s.blocks ? "b" : "a", s.number, at);
  ASSIGN_OR_RETURN(const std::string next, Next(id, a, true));
  out_.Line(a, " = k_keep(m, ", next, ", ", a, ");");
  return absl::OkStatus();
}

absl::Status CpuAccumulators::ColumnStep(ScalarId id, bool lanes) {
  const State& s = state_[id];
  const std::string at = lanes ? "[u]" : "";
  if (IsArgReduction(nest_.body[id].reduce)) {
    ASSIGN_OR_RETURN(const std::string step,
                     TupleStep(id, at, lanes, lanes ? ", m" : ""));
    out_.Line(step);
    return absl::OkStatus();
  }
  const std::string a = absl::StrCat(s.blocks ? "b" : "a", s.number, at);
  ASSIGN_OR_RETURN(const std::string next, Next(id, a, lanes));
  out_.Line(a, " = ", next, ";");
  return absl::OkStatus();
}

void CpuAccumulators::EndBlock(ScalarId id) {
  const State& s = state_[id];
  if (!s.blocks) return;
  const DType dtype = nest_.body[id].dtype;
  const bool lanes = IsLanes(id);
  const bool many = s.side_by_side > 1;
  const std::string a = absl::StrCat("a", s.number, many ? "[u]" : "");
  const std::string b = absl::StrCat("b", s.number, many ? "[u]" : "");
  if (many) {
    out_.Line("#pragma GCC unroll ", s.side_by_side);
    out_.Open("for (int u = 0; u < ", s.side_by_side, "; ++u)");
  }
  out_.Line(a, " = ", a, " + ", Converted(dtype, s.dtype, b, lanes), ";");
  out_.Line(b, " = ", TypeOf(dtype, lanes), "{};");
  if (many) out_.Close();
}

absl::Status CpuAccumulators::TupleAcrossLanes(ScalarId id) {
  const ScalarNode& node = nest_.body[id];
  const State& s = state_[id];
  const std::string& n = s.number;
  const bool many = s.side_by_side > 1;
  const std::string x = body_.Fresh("t"), y = body_.Fresh("t");
  const std::string step =
      absl::StrCat(TupleName(node.reduce), TypeEnding(node.dtype));
  if (s.place != DType::kBool) {
    out_.Line(CTypeName(node.dtype), " ", x, ";");
    out_.Line("long long ", y, ";");
    out_.Line(TupleName(node.reduce), "of(", x, ", ", y, ", ", many ? "" : "&",
              "a", n, ", ", many ? "" : "&", "j", n, ", ", s.side_by_side,
              ");");
  } else {
    const char* first = many ? "[0]" : "";
    for (int u = 1; u < s.side_by_side; ++u)
      out_.Line(step, "(a", n, "[0], j", n, "[0], a", n, "[", u, "], j", n, "[",
                u, "], K_LANES);");
    out_.Line(CTypeName(node.dtype), " ", x, " = a", n, first, "[0];");
    out_.Line("long long ", y, " = j", n, first, "[0];");
    out_.Line("for (int l = 1; l < K_LANES; ++l) ", step, "(", x, ", ", y,
              ", a", n, first, "[l], j", n, first, "[l]);");
  }
  Name(id, x, y, false);
  return absl::OkStatus();
}

absl::Status CpuAccumulators::AcrossLanes(ScalarId id) {
  const ScalarNode& node = nest_.body[id];
  const State& s = state_[id];
  const std::string name = body_.Fresh("t");
  body_.SetLanes(id, false);
  if (IsArgReduction(node.reduce)) return TupleAcrossLanes(id);
  const std::string a =
      absl::StrCat("a", s.number, s.side_by_side > 1 ? "[0]" : "");
  for (int u = 1; u < s.side_by_side; ++u) {
    ASSIGN_OR_RETURN(const std::string both,
                     CombineText(node.reduce, s.dtype, a,
                                 absl::StrCat("a", s.number, "[", u, "]")));
    out_.Line(a, " = ", both, ";");
  }
  ASSIGN_OR_RETURN(const std::string next,
                   CombineText(node.reduce, s.dtype, absl::StrCat(a, "[l]"),
                               absl::StrCat(a, "[l + h]")));
  out_.Line("for (int h = K_LANES / 2; h > 0; h /= 2)");
  out_.Line("  for (int l = 0; l < h; ++l) ", a, "[l] = ", next, ";");
  out_.Line("const ", CTypeName(node.dtype), " ", name, " = ",
            Converted(s.dtype, node.dtype, absl::StrCat(a, "[0]"), false),
            node.dtype == DType::kBool ? " != 0;" : ";");
  Name(id, name, "", false);
  return absl::OkStatus();
}

void CpuAccumulators::Columns(ScalarId id) {
  const DType dtype = nest_.body[id].dtype;
  const State& s = state_[id];
  const bool lanes = body_.IsLanes(id);
  const char* at = lanes ? "[u]" : "";
  std::string name = absl::StrCat("a", s.number);
  if (s.dtype != dtype) {
    const std::string wide = absl::StrCat(name, at);
    name = absl::StrCat("c", s.number);
    out_.Line(TypeOf(dtype, lanes), " ", name, CountText(s.side_by_side), ";");
    if (lanes) out_.Open("for (int u = 0; u < ", s.side_by_side, "; ++u)");
    out_.Line(name, at, " = ", Converted(s.dtype, dtype, wide, lanes), ";");
    if (lanes) out_.Close();
  }
  std::string places = absl::StrCat("j", s.number);
  if (lanes && s.place == DType::kInt32) {
    const std::string narrow = absl::StrCat(places, at);
    places = absl::StrCat("k", s.number);
    out_.Line("kv_i64 ", places, CountText(s.side_by_side), ";");
    out_.Open("for (int u = 0; u < ", s.side_by_side, "; ++u)");
    out_.Line(places, "[u] = ", Converted(s.place, DType::kInt64, narrow, true),
              ";");
    out_.Close();
  }
  Name(id, absl::StrCat(name, at), absl::StrCat(places, at), lanes);
}

void CpuAccumulators::Running(ScalarId id, bool lanes) {
  const DType dtype = nest_.body[id].dtype;
  const State& s = state_[id];
  const std::string a = absl::StrCat("a", s.number, lanes ? "[u]" : "");
  if (s.dtype == dtype) {
    body_.SetText(id, a);
    return;
  }
  const std::string name = body_.Fresh("t");
  out_.Line("const ", TypeOf(dtype, lanes), " ", name, " = ",
            Converted(s.dtype, dtype, a, lanes), ";");
  body_.SetText(id, name);
}

// Names a reduction's members for those that read them.
void CpuAccumulators::Name(ScalarId id, const std::string& first,
                           const std::string& second, bool lanes) {
  body_.SetText(id, first);
  body_.SetLanes(id, lanes);
  for (ScalarId other = id + 1; other < nest_.body.size(); ++other) {
    const ScalarNode& node = nest_.body[other];
    if (node.op != ScalarOp::kReduceResult || node.args[0] != id) continue;
    body_.SetText(other, node.number.i == 0 ? first : second);
    body_.SetLanes(other, lanes);
  }
}

}  // namespace kiln

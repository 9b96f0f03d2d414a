#include "compiler/codegen/cuda_accumulators.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/schedule/reduce_ops.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// How the accumulator of a tuple reduction is written: its C type with $T for
// the value's and $I for the index', the type that takes values in, if that is
// another, what both start from, how one more value or another accumulator is taken
// in ($a, $b; $v, $i of the value), and its members.
struct TupleRow {
  ReduceOp op;
  const char* type;
  const char* adding;
  const char* start;
  const char* next;
  const char* join;
  const char* members[3];
};
constexpr TupleRow kTuples[] = {
    {ReduceOp::kArgMax,
     "k_pair<$T, $I>",
     "",
     "{$0, $M}",
     "k_argmax$N($a.value, $a.index, $v, $i);",
     "k_argmax(a.value, a.index, b.value, b.index); return a;",
     {"$a.value", "((long long)$a.index)"}},
    {ReduceOp::kArgMin,
     "k_pair<$T, $I>",
     "",
     "{$0, $M}",
     "k_argmin$N($a.value, $a.index, $v, $i);",
     "k_argmin(a.value, a.index, b.value, b.index); return a;",
     {"$a.value", "((long long)$a.index)"}},
    {ReduceOp::kSoftmax,
     "k_softmax",
     "",
     "{-k_inf_f32(), 0.0f}",
     "k_softmax_next($a, $v);",
     "return k_softmax_join(a, b);",
     {"$a.max", "k_softmax_sum($a)"}},
    {ReduceOp::kMoments,
     "k_moments",
     "k_moments_run",
     "{}",
     "k_moments_next($a, $v);",
     "return k_moments_join(a, b);",
     {"($a.mean * $a.n)", "$a.mean", "$a.squares"}},
};

const TupleRow& RowOf(ReduceOp op) {
  for (const TupleRow& row : kTuples)
    if (row.op == op) return row;
  return kTuples[0];
}

}  // namespace

bool CudaAccumulators::IsFloatSum(ScalarId id) const {
  const ScalarNode& node = nest_.body[id];
  return node.reduce == ReduceOp::kSum && node.dtype == DType::kFloat32;
}

bool CudaAccumulators::IsDouble(ScalarId id) const {
  const ScalarNode& node = nest_.body[id];
  return kind_ == Kind::kAlone && node.dtype == DType::kFloat32 &&
         (node.reduce == ReduceOp::kSum || node.reduce == ReduceOp::kProd ||
          node.reduce == ReduceOp::kLogSumExp);
}

// Whether the position is that of the reduced point, which threads meet in order.
bool CudaAccumulators::CountsPoints(const ScalarNode& node) const {
  if (node.args.size() == 1) return true;
  const ScalarNode& index = nest_.body[node.args[1]];
  return index.op == ScalarOp::kIndex &&
         index.index[0] == body_.ReducedPosition();
}

// Such positions fit the kernel's index type.
std::string CudaAccumulators::IndexTypeOf(const ScalarNode& node) const {
  return CountsPoints(node) ? body_.index_type() : "long long";
}

std::string CudaAccumulators::TypeOf(ScalarId id) const {
  const ScalarNode& node = nest_.body[id];
  if (IsDouble(id)) return "double";
  if (!IsTupleReduction(node.reduce)) return std::string(CTypeName(node.dtype));
  return absl::StrReplaceAll(
      RowOf(node.reduce).type,
      {{"$T", CTypeName(node.dtype)}, {"$I", IndexTypeOf(node)}});
}

std::string CudaAccumulators::StartOf(ScalarId id) const {
  const ScalarNode& node = nest_.body[id];
  if (!IsTupleReduction(node.reduce))
    return IdentityText(node.reduce, node.dtype);
  return TypeOf(id) +
         absl::StrReplaceAll(
             RowOf(node.reduce).start,
             {{"$0", IsArgReduction(node.reduce)
                         ? IdentityText(node.reduce, node.dtype)
                         : ""},
              {"$M", IndexTypeOf(node) == "int" ? "2147483647"
                                                : "9223372036854775807ll"}});
}

absl::StatusOr<std::string> CudaAccumulators::Joiner(ScalarId id) const {
  const ScalarNode& node = nest_.body[id];
  const std::string type = TypeOf(id);
  if (IsTupleReduction(node.reduce)) {
    return absl::StrCat("[](", type, " a, ", type, " b) { ",
                        RowOf(node.reduce).join, " }");
  }
  ASSIGN_OR_RETURN(const std::string next,
                   CombineText(node.reduce, node.dtype, "a", "b"));
  return absl::StrCat("[](", type, " a, ", type, " b) { return (", type, ")(",
                      next, "); }");
}

void CudaAccumulators::Each(int count, const std::string& statement) {
  if (count == 0) {
    out_.Line(absl::StrReplaceAll(statement, {{"$", ""}}));
    return;
  }
  out_.Line("#pragma unroll");
  out_.Line("for (int e = 0; e < ", count, "; ++e) ",
            absl::StrReplaceAll(statement, {{"$", "[e]"}}));
}

absl::Status CudaAccumulators::Declare(const std::vector<ScalarId>& ids,
                                       int count) {
  for (ScalarId id : ids) {
    names_[id] = body_.Fresh("a");
    std::string type = TypeOf(id), start = StartOf(id);
    if (IsMoments(id)) {
      const TupleRow& row = RowOf(ReduceOp::kMoments);
      type = row.adding;
      start = absl::StrCat(row.adding, row.start);
    }
    if (count == 0) {
      out_.Line(type, " ", names_[id], " = ", start, ";");
      continue;
    }
    out_.Line(type, " ", names_[id], "[", count, "];");
    Each(count, absl::StrCat(names_[id], "$ = ", start, ";"));
  }
  return absl::OkStatus();
}

// Whether to join two takes so much code that it should be written once.
bool CudaAccumulators::IsLongJoin(ScalarId id) const {
  return IsMoments(id) || nest_.body[id].reduce == ReduceOp::kSoftmax;
}

bool CudaAccumulators::IsMoments(ScalarId id) const {
  return nest_.body[id].reduce == ReduceOp::kMoments;
}

absl::Status CudaAccumulators::Step(ScalarId id, const std::string& at) {
  const ScalarNode& node = nest_.body[id];
  const std::string a = absl::StrCat(names_[id], at);
  if (IsTupleReduction(node.reduce)) {
    const bool counts = CountsPoints(node);
    std::string position;
    if (IsArgReduction(node.reduce) && counts) {
      position = body_.Index(body_.ReducedPosition());
      const bool along = body_.vectors.width > 1 &&
                         body_.vectors.axis + 1 == body_.facts.num_axes;
      if (along) absl::StrAppend(&position, " + e");
    } else if (IsArgReduction(node.reduce)) {
      position = body_.Text(node.args[1]);
    }
    // A thread that counts meets positions in their order.
    out_.Line(absl::StrReplaceAll(
        RowOf(node.reduce).next,
        {{"$N", counts ? "_next" : ""},
         {"$a", a},
         {"$v", body_.Text(node.args[0])},
         {"$i", absl::StrCat("(", IndexTypeOf(node), ")(", position, ")")}}));
    return absl::OkStatus();
  }
  const ScalarId value = node.args[0];
  if (IsFloatSum(id) && !IsDouble(id) && body_.facts.IsReduced(value)) {
    const std::vector<ScalarId> factors = body_.FusedFactors(value, id);
    if (!factors.empty()) {
      out_.Line(a, " = fmaf(", body_.Text(factors[0]), ", ",
                body_.Text(factors[1]), ", ", a, ");");
      return absl::OkStatus();
    }
  }
  ASSIGN_OR_RETURN(const std::string next,
                   CombineText(node.reduce, node.dtype, a, body_.Text(value)));
  out_.Line(a, " = ", next, ";");
  return absl::OkStatus();
}

void CudaAccumulators::Name(ScalarId id, const std::string& at) {
  const std::string a = absl::StrCat(names_[id], at);
  const ReduceOp op = nest_.body[id].reduce;
  if (!IsTupleReduction(op)) {
    body_.SetText(id, IsDouble(id) ? absl::StrCat("((float)", a, ")") : a);
    return;
  }
  const auto member = [&](int64_t number) {
    return absl::StrReplaceAll(RowOf(op).members[number], {{"$a", a}});
  };
  body_.SetText(id, member(0));
  for (ScalarId other = id + 1; other < nest_.body.size(); ++other) {
    const ScalarNode& node = nest_.body[other];
    if (node.op == ScalarOp::kReduceResult && node.args[0] == id)
      body_.SetText(other, member(node.number.i));
  }
}

bool CudaAccumulators::InGroups(ScalarId id) const {
  return nest_.body[id].reduce == ReduceOp::kSoftmax && body_.vectors.width > 1;
}

void CudaAccumulators::BeginGroup(ScalarId id) {
  groups_[id] = body_.Fresh("g");
  out_.Line("float ", groups_[id], "[", body_.vectors.width, "];");
  if (body_.vectors.cut)
    Each(body_.vectors.width, absl::StrCat(groups_[id], "$ = -k_inf_f32();"));
}

void CudaAccumulators::GroupStep(ScalarId id) {
  out_.Line(groups_[id], "[e] = ", body_.Text(nest_.body[id].args[0]), ";");
}

void CudaAccumulators::EndGroup(ScalarId id) {
  out_.Line("k_softmax_group(", names_[id], ", ", groups_[id], ");");
}

void CudaAccumulators::EndPass(const std::vector<ScalarId>& ids, int count) {
  for (ScalarId id : ids) {
    if (!IsMoments(id)) continue;
    const std::string whole = body_.Fresh("a");
    out_.Line(TypeOf(id), " ", whole,
              count == 0 ? "" : absl::StrCat("[", count, "]"), ";");
    Each(count, absl::StrCat(whole, "$ = k_moments_end(", names_[id], "$);"));
    names_[id] = whole;
  }
}

void CudaAccumulators::NameRunning(ScalarId id) {
  body_.SetText(id, IsDouble(id) ? absl::StrCat("((float)", names_[id], ")")
                                 : names_[id]);
}

void CudaAccumulators::OpenLoop(const std::vector<ScalarId>& reduces,
                                const Steps& steps, int count) {
  const char* type = body_.index_type();
  const std::string& limit = steps.limit;
  const int64_t block = steps.step * steps.most_steps;
  blocks_.clear();
  for (ScalarId id : reduces)
    if (((IsFloatSum(id) && !IsDouble(id)) || IsMoments(id)) &&
        body_.shapes.Range(steps.points).max > block)
      blocks_.push_back(id);
  if (blocks_.empty() && body_.shapes.Range(steps.points).max <= steps.step) {
    if (steps.all_below) {
      out_.Open();
      out_.Line("const ", type, " r = ", steps.first, ";");
    } else {
      out_.Open("if (const ", type, " r = ", steps.first, "; r < ", limit, ")");
    }
    return;
  }
  if (blocks_.empty()) {
    out_.Open("for (", type, " r = ", steps.first, "; r < ", limit,
              "; r += ", steps.step, ")");
    return;
  }
  for (ScalarId id : blocks_) {
    if (!IsFloatSum(id)) continue;
    totals_[id] = body_.Fresh("d");
    out_.Line("double ", totals_[id],
              count == 0 ? " = 0.0" : absl::StrCat("[", count, "]"), ";");
    if (count != 0) Each(count, absl::StrCat(totals_[id], "$ = 0.0;"));
  }
  out_.Open("for (long long block = ", steps.first, "; block < ", limit,
            "; block += ", block, ")");
  out_.Line("const ", type, " block_end = (", type, ")(block + ", block, " < ",
            limit, " ? block + ", block, " : ", limit, ");");
  for (ScalarId id : blocks_)
    if (IsFloatSum(id)) Each(count, absl::StrCat(names_[id], "$ = 0.0f;"));
  out_.Open("for (", type, " r = (", type,
            ")block; r < block_end; r += ", steps.step, ")");
}

void CudaAccumulators::CloseLoop(int count) {
  out_.Close();
  if (blocks_.empty()) return;
  for (ScalarId id : blocks_)
    Each(count,
         IsFloatSum(id)
             ? absl::StrCat(totals_[id], "$ += (double)", names_[id], "$;")
             : absl::StrCat("k_moments_end_block(", names_[id], "$);"));
  out_.Close();
  for (ScalarId id : blocks_)
    if (IsFloatSum(id))
      Each(count, absl::StrCat(names_[id], "$ = (float)", totals_[id], "$;"));
}

absl::Status CudaAccumulators::JoinAcross(const std::vector<ScalarId>& ids,
                                          const RowThreads& row) {
  for (ScalarId id : ids) {
    ASSIGN_OR_RETURN(const std::string join, Joiner(id));
    out_.Line(names_[id], " = k_across<", row.lanes, ", ", row.threads, ">(",
              names_[id], ", ", join, ");");
    if (row.cluster > 1) {
      out_.Line(names_[id], " = k_across_cluster<", row.cluster, ">(",
                names_[id], ", ", join, ");");
    }
  }
  return absl::OkStatus();
}

absl::Status CudaAccumulators::JoinDown(const std::vector<ScalarId>& ids,
                                        int across, int down) {
  if (down == 1) return absl::OkStatus();
  for (ScalarId id : ids) {
    ASSIGN_OR_RETURN(const std::string join, Joiner(id));
    out_.Line("k_down<", across, ", ", down, ">(parts, ", names_[id], ", ",
              join, ");");
  }
  return absl::OkStatus();
}

void CudaAccumulators::Realign(const std::vector<ScalarId>& ids, int side) {
  for (ScalarId id : ids)
    out_.Line("k_realign<", side, ">(parts, ", names_[id], ", shift);");
}

void CudaAccumulators::DeclareParts(int across, int down) {
  if (down == 1) return;
  int64_t bytes = 0;
  for (const ScalarNode& node : nest_.body)
    if (node.op == ScalarOp::kReduce)
      bytes = std::max(bytes, JoinedBytes(node));
  out_.Line("__shared__ unsigned long long parts[",
            CeilDiv(bytes * across * down * body_.vectors.width, 8).constant(),
            "];");
}

std::string CudaAccumulators::PartialCell(ScalarId id, const SymExpr& points,
                                          int parts, const std::string& part,
                                          const std::string& point) const {
  const SymExpr before = PartialsBefore(nest_, id, points, parts);
  return absl::StrCat(
      "((", TypeOf(id), "*)(w",
      before.Is(0) ? "" : absl::StrCat(" + ", body_.Index(before)),
      "))[(long long)(", part, ") * ", body_.Index(points), " + ", point, "]");
}

void CudaAccumulators::StorePartials(const std::vector<ScalarId>& ids,
                                     const SymExpr& points, int parts,
                                     const std::string& point, int count,
                                     const std::string& condition) {
  out_.Open("if (", condition, ")");
  for (ScalarId id : ids) {
    const std::string cell = PartialCell(id, points, parts, "part", point);
    if (count == 0) {
      out_.Line(cell, " = ", names_[id], ";");
      continue;
    }
    out_.Line("#pragma unroll");
    out_.Line("for (int e = 0; e < ", count, "; ++e) ",
              body_.vectors.cut ? "if (e >= lo && e < hi) " : "",
              PartialCell(id, points, parts, "part",
                          absl::StrCat("(", point, " + e)")),
              " = ", names_[id], "[e];");
  }
  out_.Close();
}

// A statement for what stands side by side and exists.
void CudaAccumulators::EachThatExists(int count, const std::string& statement) {
  const bool partial = count > 0 && body_.vectors.cut;
  Each(count, partial ? absl::StrCat("if (e >= lo && e < hi) ", statement)
                      : statement);
}

// Those that are joined in a few instructions: some parts at once.
absl::Status CudaAccumulators::LoadShortParts(const std::vector<ScalarId>& ids,
                                              const PartsRead& read) {
  std::vector<std::string> joiners;
  for (ScalarId id : ids) {
    ASSIGN_OR_RETURN(const std::string join, Joiner(id));
    joiners.push_back(body_.Fresh("j"));
    out_.Line("const auto ", joiners.back(), " = ", join, ";");
  }
  out_.Line("#pragma unroll ", std::min(read.turns(), kWrittenOut));
  out_.Open(read.loop());
  for (size_t k = 0; k < ids.size(); ++k) {
    const std::string& a = names_[ids[k]];
    EachThatExists(read.count,
                   absl::StrCat(a, "$ = ", joiners[k], "(", a, "$, ",
                                PartialCell(ids[k], read.points, read.parts,
                                            "q", read.point),
                                ");"));
  }
  out_.Close();
  return absl::OkStatus();
}

// One whose join is written once; the next part is on its way while this one is
// joined.
absl::Status CudaAccumulators::LoadLongParts(ScalarId id,
                                             const PartsRead& read) {
  ASSIGN_OR_RETURN(const std::string join, Joiner(id));
  const std::string joiner = body_.Fresh("j"), next = body_.Fresh("n"),
                    part = body_.Fresh("b"), &a = names_[id];
  const std::string size =
      read.count == 0 ? "" : absl::StrCat("[", read.count, "]");
  const auto load = [&](const std::string& number) {
    EachThatExists(
        read.count,
        absl::StrCat(
            next, "$ = ",
            PartialCell(id, read.points, read.parts, number, read.point), ";"));
  };
  out_.Line("const auto ", joiner, " = ", join, ";");
  out_.Line(TypeOf(id), " ", next, size, ";");
  load(absl::StrCat("(", read.first, " < ", read.parts, " ? ", read.first,
                    " : 0)"));
  out_.Line("#pragma unroll 1");
  out_.Open(read.loop());
  out_.Line(TypeOf(id), " ", part, size, ";");
  EachThatExists(read.count, absl::StrCat(part, "$ = ", next, "$;"));
  out_.Line("const int ahead = q + ", read.stride, " < ", read.parts, " ? q + ",
            read.stride, " : q;");
  load("ahead");
  EachThatExists(read.count,
                 absl::StrCat(a, "$ = ", joiner, "(", a, "$, ", part, "$);"));
  out_.Close();
  return absl::OkStatus();
}

absl::Status CudaAccumulators::LoadPartials(const std::vector<ScalarId>& ids,
                                            const PartsRead& read,
                                            const std::string& condition) {
  std::vector<ScalarId> short_ones;
  for (ScalarId id : ids) {
    const std::string start = StartOf(id);
    if (read.count == 0) {
      out_.Line(names_[id], " = ", start, ";");
    } else {
      Each(read.count, absl::StrCat(names_[id], "$ = ", start, ";"));
    }
    if (read.turns() == 1 || !IsLongJoin(id)) short_ones.push_back(id);
  }
  out_.Open("if (", condition, ")");
  if (!short_ones.empty()) RETURN_IF_ERROR(LoadShortParts(short_ones, read));
  for (ScalarId id : ids) {
    if (read.turns() > 1 && IsLongJoin(id))
      RETURN_IF_ERROR(LoadLongParts(id, read));
  }
  out_.Close();
  return absl::OkStatus();
}

}  // namespace kiln

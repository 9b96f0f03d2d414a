#include "compiler/codegen/cuda_accumulators.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/schedule/reduce_ops.h"
#include "proto/base/status.h"

namespace kiln {

bool IsTupleReduction(ReduceOp op) {
  return op == ReduceOp::kArgMax || op == ReduceOp::kArgMin;
}

bool CudaAccumulators::IsFloatSum(ScalarId id) const {
  const ScalarNode& node = nest_.body[id];
  return node.reduce == ReduceOp::kSum && node.dtype == DType::kFloat32;
}

bool CudaAccumulators::IsDouble(ScalarId id) const {
  const ScalarNode& node = nest_.body[id];
  return kind_ == Kind::kAlone && node.dtype == DType::kFloat32 &&
         (node.reduce == ReduceOp::kSum || node.reduce == ReduceOp::kProd);
}

// Positions that the reduction counts itself fit the kernel's index type.
std::string CudaAccumulators::IndexTypeOf(const ScalarNode& node) const {
  return node.args.size() == 1 ? body_.index_type() : "long long";
}

std::string CudaAccumulators::TypeOf(ScalarId id) const {
  const ScalarNode& node = nest_.body[id];
  if (IsDouble(id)) return "double";
  if (!IsTupleReduction(node.reduce)) return std::string(CTypeName(node.dtype));
  return absl::StrCat("k_pair<", CTypeName(node.dtype), ", ", IndexTypeOf(node),
                      ">");
}

std::string CudaAccumulators::StartOf(ScalarId id) const {
  const ScalarNode& node = nest_.body[id];
  const std::string start = IdentityText(node.reduce, node.dtype);
  if (!IsTupleReduction(node.reduce)) return start;
  return absl::StrCat("{", start, ", ",
                      IndexTypeOf(node) == "int" ? "2147483647"
                                                 : "9223372036854775807ll",
                      "}");
}

absl::StatusOr<std::string> CudaAccumulators::Joiner(ScalarId id) const {
  const ScalarNode& node = nest_.body[id];
  const std::string type = TypeOf(id);
  if (IsTupleReduction(node.reduce)) {
    return absl::StrCat(
        "[](", type, " a, ", type, " b) { ",
        node.reduce == ReduceOp::kArgMax ? "k_argmax" : "k_argmin",
        "(a.value, a.index, b.value, b.index); return a; }");
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
    if (count == 0) {
      out_.Line(TypeOf(id), " ", names_[id], " = ", StartOf(id), ";");
      continue;
    }
    out_.Line(TypeOf(id), " ", names_[id], "[", count, "];");
    Each(count, IsTupleReduction(nest_.body[id].reduce)
                    ? absl::StrCat(names_[id], "$ = ", TypeOf(id), StartOf(id), ";")
                    : absl::StrCat(names_[id], "$ = ", StartOf(id), ";"));
  }
  return absl::OkStatus();
}

absl::Status CudaAccumulators::Step(ScalarId id, const std::string& at) {
  const ScalarNode& node = nest_.body[id];
  const std::string a = absl::StrCat(names_[id], at);
  if (IsTupleReduction(node.reduce)) {
    const bool counts = node.args.size() == 1;
    std::string position;
    if (counts) {
      position = body_.Index(body_.ReducedPosition());
      const bool along = body_.vectors.width > 1 &&
                         body_.vectors.axis + 1 == body_.facts.num_axes;
      if (along) absl::StrAppend(&position, " + e");
    } else {
      position = body_.Text(node.args[1]);
    }
    // A thread that counts meets positions in their order.
    out_.Line(node.reduce == ReduceOp::kArgMax ? "k_argmax" : "k_argmin",
              counts ? "_next(" : "(", a, ".value, ", a, ".index, ",
              body_.Text(node.args[0]), ", (", IndexTypeOf(node), ")(",
              position, "));");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      const std::string next,
      CombineText(node.reduce, node.dtype, a, body_.Text(node.args[0])));
  out_.Line(a, " = ", next, ";");
  return absl::OkStatus();
}

void CudaAccumulators::Name(ScalarId id, const std::string& at) {
  const std::string a = absl::StrCat(names_[id], at);
  const bool tuple = IsTupleReduction(nest_.body[id].reduce);
  body_.SetText(id, tuple          ? absl::StrCat(a, ".value")
                    : IsDouble(id) ? absl::StrCat("((float)", a, ")")
                                   : a);
  for (ScalarId other = id + 1; other < nest_.body.size(); ++other) {
    const ScalarNode& node = nest_.body[other];
    if (node.op != ScalarOp::kReduceResult || node.args[0] != id) continue;
    body_.SetText(other, node.number.i == 0
                             ? absl::StrCat(a, ".value")
                             : absl::StrCat("((long long)", a, ".index)"));
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
    if (IsFloatSum(id) && !IsDouble(id) &&
        body_.shapes.Range(steps.points).max > block)
      blocks_.push_back(id);
  if (blocks_.empty()) {
    out_.Open("for (", type, " r = ", steps.first, "; r < ", limit,
              "; r += ", steps.step, ")");
    return;
  }
  for (ScalarId id : blocks_) {
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
    Each(count, absl::StrCat(names_[id], "$ = 0.0f;"));
  out_.Open("for (", type, " r = (", type, ")block; r < block_end; r += ",
            steps.step, ")");
}

void CudaAccumulators::CloseLoop(int count) {
  out_.Close();
  if (blocks_.empty()) return;
  for (ScalarId id : blocks_)
    Each(count, absl::StrCat(totals_[id], "$ += (double)", names_[id], "$;"));
  out_.Close();
  for (ScalarId id : blocks_)
    Each(count, absl::StrCat(names_[id], "$ = (float)", totals_[id], "$;"));
}

absl::Status CudaAccumulators::JoinAcross(const std::vector<ScalarId>& ids,
                                          int lanes, int threads) {
  for (ScalarId id : ids) {
    ASSIGN_OR_RETURN(const std::string join, Joiner(id));
    out_.Line(names_[id], " = k_across<", lanes, ", ", threads, ">(",
              names_[id], ", ", join, ");");
  }
  return absl::OkStatus();
}

absl::Status CudaAccumulators::JoinDown(const std::vector<ScalarId>& ids,
                                        int across, int down) {
  for (ScalarId id : ids) {
    ASSIGN_OR_RETURN(const std::string join, Joiner(id));
    out_.Line("k_down<", across, ", ", down, ">(parts, ", names_[id], ", ",
              join, ");");
  }
  return absl::OkStatus();
}

void CudaAccumulators::DeclareParts(int across, int down) {
  if (down == 1) return;
  int64_t bytes = 0;
  for (const ScalarNode& node : nest_.body)
    if (node.op == ScalarOp::kReduce)
      bytes = std::max(bytes, AccumulatorBytes(node));
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
    const std::string cell =
        PartialCell(id, points, parts, "part", point);
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

absl::Status CudaAccumulators::LoadPartials(
    const std::vector<ScalarId>& ids, const SymExpr& points, int parts,
    const std::string& point, int count, const std::string& first, int stride,
    const std::string& condition) {
  for (ScalarId id : ids) {
    if (count == 0) {
      out_.Line(names_[id], " = ", TypeOf(id), "(",
                StartOf(id)[0] == '{' ? "" : "", StartOf(id), ");");
    } else {
      Each(count, absl::StrCat(names_[id], "$ = ", TypeOf(id), StartOf(id)[0] == '{'
                                   ? StartOf(id)
                                   : absl::StrCat("(", StartOf(id), ")"),
                               ";"));
    }
  }
  out_.Open("if (", condition, ")");
  out_.Line("#pragma unroll 4");
  out_.Open("for (int q = ", first, "; q < ", parts, "; q += ", stride, ")");
  for (ScalarId id : ids) {
    ASSIGN_OR_RETURN(const std::string join, Joiner(id));
    const std::string joiner = body_.Fresh("j");
    out_.Line("const auto ", joiner, " = ", join, ";");
    if (count == 0) {
      out_.Line(names_[id], " = ", joiner, "(", names_[id], ", ",
                PartialCell(id, points, parts, "q", point), ");");
      continue;
    }
    out_.Line("#pragma unroll");
    out_.Line("for (int e = 0; e < ", count, "; ++e) ",
              body_.vectors.cut ? "if (e >= lo && e < hi) " : "", names_[id],
              "[e] = ", joiner, "(", names_[id], "[e], ",
              PartialCell(id, points, parts, "q",
                          absl::StrCat("(", point, " + e)")),
              ");");
  }
  out_.Close();
  out_.Close();
  return absl::OkStatus();
}

}  // namespace kiln

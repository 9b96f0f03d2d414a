// CudaBody's loads ahead of their use.

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/loop/index_expr.h"
#include "compiler/schedule/held_rows.h"

namespace kiln {
namespace {

// Whether the offset is a sum in which each axis stands with a positive factor.
bool GrowsWithAxes(const SymExpr& offset) {
  if (offset.is_constant()) return true;
  for (const SymExpr::Term& term : offset.sum().terms) {
    if (term.coefficient < 0) return false;
    for (const SymExpr::Atom& atom : term.atoms)
      if (!atom.is_var() || atom.var.kind == Var::Kind::kIndirect) return false;
  }
  return true;
}

}  // namespace

std::string CudaBody::PackType(ScalarId load) const {
  return absl::StrCat("k_pack<", CTypeName(nest.body[load].dtype), ", ",
                      IsLanes(load) ? vectors.width : 1, ">");
}

// The whole group at the load's address, as an expression.
std::string CudaBody::WideLoadText(ScalarId id) const {
  const ScalarNode& node = nest.body[id];
  const std::string type =
      absl::StrCat("<", CTypeName(node.dtype), ", ", vectors.width,
                   node.last_read ? ", true" : "", ">(");
  const std::string from = absl::StrCat(BufferName(node.buffer), " + ",
                                        Index(facts.load_offset[id]));
  if (!vectors.cut) return absl::StrCat("k_load", type, from, ")");
  const std::string within = loads_past_ends ? WithinText(id) : "";
  return within.empty() ? absl::StrCat("k_load_part", type, from, ", lo, hi)")
                        : absl::StrCat("k_load_within", type, from, ", ",
                                       within, ", lo, hi)");
}

// A condition under which the whole group lies between elements that the load
// reads somewhere; empty where this is not known.
std::string CudaBody::WithinText(ScalarId load) const {
  const SymExpr& offset = facts.load_offset[load];
  // A mask may be there to keep the load from its ends.
  if (!nest.body[load].args.empty() || !GrowsWithAxes(offset)) return "";
  const auto at = [&](bool last) {
    return offset.Substitute([&](Var var) {
      if (var.kind != Var::Kind::kAxis) return SymExpr::Of(var);
      return last ? facts.extents[var.index] - 1 : SymExpr(0);
    });
  };
  const std::string text = Index(offset);
  return absl::StrCat(text, " >= ", Index(at(false)), " && ", text,
                      " <= ", Index(at(true) + 1 - int64_t{vectors.width}));
}

void CudaBody::LoadAhead(ScalarId load, const std::string& pack) {
  const ScalarNode& node = nest.body[load];
  const SymExpr& offset = facts.load_offset[load];
  if (!IsLanes(load)) {
    out.Line("k_put(", pack, ", 0, ", BufferName(node.buffer), "[",
             Index(offset), "]);");
  } else if (IsWideAccess(buffers[node.buffer], offset, vectors, facts)) {
    out.Line(pack, " = ", WideLoadText(load), ";");
  } else {
    out.Line("#pragma unroll");
    out.Open("for (int e = 0; e < ", vectors.width, "; ++e)");
    in_loop_ = true;
    out.Line(InsideText(true), "k_put(", pack, ", e, ", BufferName(node.buffer),
             "[", At(offset), "]);");
    in_loop_ = false;
    out.Close();
  }
}

void CudaBody::CopyAhead(ScalarId load, const std::string& pack) {
  const ScalarNode& node = nest.body[load];
  const SymExpr& offset = facts.load_offset[load];
  const int64_t bytes = vectors.width * SizeInBytes(node.dtype);
  if (!IsLanes(load) || bytes < kLeastCopiedBytes ||
      !IsWideAccess(buffers[node.buffer], offset, vectors, facts)) {
    LoadAhead(load, pack);
    return;
  }
  const std::string copy =
      absl::StrCat("k_copy<", bytes, ">(&", pack, ", ", BufferName(node.buffer),
                   " + ", Index(offset), ");");
  if (!vectors.cut) {
    out.Line(copy);
    return;
  }
  out.Line("if (lo == 0 && hi == ", vectors.width, ") ", copy);
  out.Line("else ", pack, " = ", WideLoadText(load), ";");
}

void CudaBody::ReadFrom(ScalarId load, const std::string& pack) {
  ahead_[load] = true;
  SetText(load, absl::StrCat("k_at(", pack, IsLanes(load) ? ", e)" : ", 0)"));
}

}  // namespace kiln

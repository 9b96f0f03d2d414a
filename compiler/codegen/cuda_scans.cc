#include "compiler/codegen/cuda_scans.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class ScansWriter {
 public:
  ScansWriter(CudaBody& body, const CudaScans& variant)
      : v_(variant),
        body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        groups_(PointsOf(body, facts_.num_outer, facts_.num_axes)),
        rows_(PointsOf(body, 0, facts_.num_outer)),
        width_(body.vectors.width),
        cells_(nest_.body.size()) {}

  absl::StatusOr<CudaGrid> Run() {
    SortNodes();
    const char* type = body_.index_type();
    out_.Line("const int t = (int)threadIdx.x % ", v_.lanes, ";");
    OpenGridLoop(body_, "first",
                 absl::StrCat("(unsigned ", type, ")blockIdx.x * ", v_.rows),
                 body_.Index(rows_), v_.rows);
    out_.Line("const ", type, " block_row = (", type,
              ")first + (int)threadIdx.x / ", v_.lanes, ";");
    out_.Line("const bool live = block_row < ", body_.Index(rows_), ";");
    out_.Line("const ", type, " row = live ? block_row : 0;");
    SplitPoint(body_, "row", 0, facts_.num_outer);
    for (ScalarId id : outer_) RETURN_IF_ERROR(body_.Node(id));
    for (ScalarId id : scans_)
      out_.Line(CarryType(id), " carry", id, " = ", Identity(id), ";");
    out_.Open("for (", type, " tile = 0; tile < ", body_.Index(groups_),
              "; tile += ", v_.lanes, ")");
    RETURN_IF_ERROR(Values());
    for (ScalarId id : scans_) RETURN_IF_ERROR(Join(id));
    RETURN_IF_ERROR(Stores());
    out_.Close();
    out_.Close();
    return LoopGrid(CeilDiv(rows_, int64_t{v_.rows}), v_.lanes * v_.rows);
  }

 private:
  bool IsWide(ScalarId id) const {
    const ScalarNode& node = nest_.body[id];
    return node.dtype == DType::kFloat32 &&
           (node.reduce == ReduceOp::kSum || node.reduce == ReduceOp::kProd);
  }
  std::string CarryType(ScalarId id) const {
    return IsWide(id) ? "double" : std::string(CTypeName(nest_.body[id].dtype));
  }
  std::string Identity(ScalarId id) const {
    return IdentityText(nest_.body[id].reduce,
                        IsWide(id) ? DType::kFloat64 : nest_.body[id].dtype);
  }
  absl::StatusOr<std::string> Combined(ScalarId id, const std::string& a,
                                       const std::string& b) const {
    const ScalarNode& node = nest_.body[id];
    return CombineText(node.reduce, IsWide(id) ? DType::kFloat64 : node.dtype,
                       a, b);
  }

  // What is free of the scanned axis, what scans need, and what stores need.
  void SortNodes() {
    std::vector<bool> scanned(nest_.body.size(), false);
    std::vector<bool> stored(nest_.body.size(), false);
    const auto mark = [&](ScalarId id, std::vector<bool>& set) {
      set[id] = true;
    };
    for (ScalarId id = 0; id < nest_.body.size(); ++id)
      if (nest_.body[id].op == ScalarOp::kScan) {
        scans_.push_back(id);
        mark(nest_.body[id].args[0], scanned);
      }
    for (const struct Store& store : nest_.stores) {
      mark(store.value, stored);
      if (store.mask != Store::kNoMask) mark(store.mask, stored);
      MarkIndex(store.index, stored);
    }
    for (ScalarId id = static_cast<ScalarId>(nest_.body.size()); id-- > 0;) {
      const ScalarNode& node = nest_.body[id];
      for (std::vector<bool>* set : {&scanned, &stored}) {
        if (!(*set)[id] || node.op == ScalarOp::kScan) continue;
        for (ScalarId arg : node.args) mark(arg, *set);
        MarkIndex(node.index, *set);
      }
    }
    for (ScalarId id = 0; id < nest_.body.size(); ++id) {
      if (nest_.body[id].op == ScalarOp::kScan) continue;
      if (!facts_.IsReduced(id)) {
        if (scanned[id] || stored[id]) outer_.push_back(id);
        continue;
      }
      if (scanned[id]) scanned_.push_back(id);
      if (stored[id]) stored_.push_back(id);
    }
  }

  static void MarkIndex(const DimVector& index, std::vector<bool>& set) {
    for (const SymExpr& e : index) {
      if (e.is_constant()) continue;
      e.VisitVars([&](Var var) {
        if (var.kind == Var::Kind::kIndirect) set[var.index] = true;
      });
    }
  }

  void OpenGroup() {
    const char* type = body_.index_type();
    out_.Line("const ", type, " r = tile + t;");
    out_.Open("if (r < ", body_.Index(groups_), ")");
    SplitPoint(body_, "r", facts_.num_outer, facts_.num_axes);
  }

  std::string Cell(ScalarId id) const {
    return absl::StrCat(cells_[id], width_ > 1 ? "[e]" : "[0]");
  }

  // The group's own values; past the row's end what changes nothing.
  absl::Status Values() {
    for (ScalarId id : scans_) {
      cells_[id] = body_.Fresh("s");
      const ScalarNode& node = nest_.body[id];
      out_.Line(CTypeName(node.dtype), " ", cells_[id], "[", width_, "];");
      out_.Line("#pragma unroll");
      out_.Line("for (int e = 0; e < ", width_, "; ++e) ", cells_[id],
                "[e] = ", IdentityText(node.reduce, node.dtype), ";");
    }
    out_.Open();
    OpenGroup();
    const auto then = [&](CudaBody::Place place) {
      if (place != CudaBody::Place::kNeighbour) return absl::OkStatus();
      for (ScalarId id : scans_)
        out_.Line(Cell(id), " = ", body_.Text(nest_.body[id].args[0]), ";");
      return absl::OkStatus();
    };
    static const std::vector<uint32_t> kNone;
    RETURN_IF_ERROR(body_.WriteGroup({scanned_, kNone, then, ""}));
    out_.Close();
    out_.Close();
    return absl::OkStatus();
  }

  // Each value becomes the running one.
  absl::Status Join(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    const std::string& s = cells_[id];
    const std::string carry = absl::StrCat("carry", id);
    const std::string type = CarryType(id);
    ASSIGN_OR_RETURN(
        const std::string next,
        CombineText(node.reduce, node.dtype, absl::StrCat(s, "[e - 1]"),
                    absl::StrCat(s, "[e]")));
    out_.Line("#pragma unroll");
    out_.Line("for (int e = 1; e < ", width_, "; ++e) ", s, "[e] = ", next,
              ";");
    ASSIGN_OR_RETURN(const std::string join, Combined(id, "a", "b"));
    const std::string before = body_.Fresh("b"), all = body_.Fresh("b");
    out_.Line(type, " ", all, ";");
    out_.Line("const ", type, " ", before, " = k_scan<", v_.lanes, ", ",
              v_.lanes * v_.rows, ">((", type, ")", s, "[", width_ - 1, "], (",
              type, ")", Identity(id), ", ", all, ", [](", type, " a, ", type,
              " b) { return (", type, ")(", join, "); });");
    ASSIGN_OR_RETURN(const std::string from, Combined(id, carry, before));
    const std::string start = body_.Fresh("b");
    out_.Line("const ", type, " ", start, " = ", from, ";");
    ASSIGN_OR_RETURN(
        const std::string running,
        Combined(id, start, absl::StrCat("(", type, ")", s, "[e]")));
    out_.Line("#pragma unroll");
    out_.Line("for (int e = 0; e < ", width_, "; ++e) ", s, "[e] = (",
              CTypeName(node.dtype), ")(", running, ");");
    ASSIGN_OR_RETURN(const std::string carried, Combined(id, carry, all));
    out_.Line(carry, " = ", carried, ";");
    return absl::OkStatus();
  }

  absl::Status Stores() {
    out_.Open();
    OpenGroup();
    for (ScalarId id : scans_) body_.SetText(id, Cell(id));
    std::vector<uint32_t> stores;
    for (uint32_t s = 0; s < nest_.stores.size(); ++s) stores.push_back(s);
    RETURN_IF_ERROR(body_.WriteGroup(
        {stored_, stores, [](CudaBody::Place) { return absl::OkStatus(); },
         "live"}));
    out_.Close();
    out_.Close();
    return absl::OkStatus();
  }

  const CudaScans& v_;
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const SymExpr groups_;  // of a row
  const SymExpr rows_;
  const int width_;
  std::vector<std::string> cells_;  // arrays of the scans' values
  std::vector<ScalarId> scans_, outer_, scanned_, stored_;
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaScans(CudaBody& body,
                                        const CudaScans& variant) {
  return ScansWriter(body, variant).Run();
}

}  // namespace kiln

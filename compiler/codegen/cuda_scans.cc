#include "compiler/codegen/cuda_scans.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/scanned_nodes.h"
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
        nodes_(NodesOfScans(body.nest, body.facts)),
        cells_(nest_.body.size()) {}

  absl::StatusOr<CudaGrid> Run() {
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
    for (ScalarId id : nodes_.outer) RETURN_IF_ERROR(body_.Node(id));
    for (ScalarId id : nodes_.ops)
      out_.Line(CarryType(id), " carry", id, " = ", Identity(id), ";");
    out_.Open("for (", type, " tile = 0; tile < ", body_.Index(groups_),
              "; tile += ", v_.lanes, ")");
    RETURN_IF_ERROR(Values());
    for (ScalarId id : nodes_.ops) RETURN_IF_ERROR(Join(id));
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
    for (ScalarId id : nodes_.ops) {
      cells_[id] = body_.Fresh("run");
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
      for (ScalarId id : nodes_.ops)
        out_.Line(Cell(id), " = ", body_.Text(nest_.body[id].args[0]), ";");
      return absl::OkStatus();
    };
    static const std::vector<uint32_t> kNone;
    RETURN_IF_ERROR(body_.WriteGroup({nodes_.inputs, kNone, then, ""}));
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
    for (ScalarId id : nodes_.ops) body_.SetText(id, Cell(id));
    std::vector<uint32_t> stores;
    for (uint32_t s = 0; s < nest_.stores.size(); ++s) stores.push_back(s);
    RETURN_IF_ERROR(body_.WriteGroup(
        {nodes_.stored, stores,
         [](CudaBody::Place) { return absl::OkStatus(); }, "live"}));
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
  const ScannedNodes nodes_;
  std::vector<std::string> cells_;  // arrays of the scans' values
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaScans(CudaBody& body,
                                        const CudaScans& variant) {
  return ScansWriter(body, variant).Run();
}

}  // namespace kiln

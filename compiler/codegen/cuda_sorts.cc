#include "compiler/codegen/cuda_sorts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/load_ahead.h"
#include "compiler/codegen/scanned_nodes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class SortsWriter {
 public:
  SortsWriter(CudaBody& body, const CudaSorts& variant)
      : v_(variant),
        body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        groups_(PointsOf(body, facts_.num_outer, facts_.num_axes)),
        rows_(PointsOf(body, 0, facts_.num_outer)),
        nodes_(NodesOfScans(body.nest, body.facts)),
        sort_(nodes_.ops[0]) {}

  absl::StatusOr<CudaGrid> Run() {
    const ScalarNode& value = nest_.body[nest_.body[sort_].args[0]];
    if (SizeInBytes(value.dtype) > 4) {
      return MakeError(
          ErrorReason::kUnsupportedOp,
          absl::StrCat("sort of ", ShortName(value.dtype), " on CUDA"));
    }
    const char* type = body_.index_type();
    const SymExpr& size = facts_.extents[facts_.num_axes - 1];
    out_.Line("extern __shared__ unsigned long long keys[];");
    out_.Line("const int t = (int)threadIdx.x;");
    OpenGridLoop(body_, "first",
                 absl::StrCat("(unsigned ", type, ")blockIdx.x"), rows_, 1,
                 false);
    out_.Line("const ", type, " row = (", type, ")first;");
    SplitPoint(body_, "row", 0, facts_.num_outer);
    for (ScalarId id : nodes_.outer) RETURN_IF_ERROR(body_.Node(id));
    const ValueRange range = body_.shapes.Range(size);
    if (range.max <= v_.capacity) {
      RETURN_IF_ERROR(WholeRow(size));
    } else {
      RETURN_IF_ERROR(Stream());
    }
    RETURN_IF_ERROR(Places(size));
    // The next row's keys go where this row's are still read.
    if (!body_.one_turn) out_.Line("__syncthreads();");
    out_.Close();
    return CudaGrid{rows_, v_.blocks};
  }

 private:
  // The key of the value at this neighbour.
  std::string Key() const {
    const ScalarNode& sort = nest_.body[sort_];
    const DType dtype = nest_.body[sort.args[0]].dtype;
    const std::string place =
        absl::StrCat(CudaBody::AxisName(facts_.num_axes - 1),
                     body_.vectors.width > 1 ? " + e" : "");
    return absl::StrCat("k_sort_key_", TypeEnding(dtype), "<",
                        sort.reduce == ReduceOp::kMax ? "true" : "false", ">(",
                        body_.Text(sort.args[0]), ", (unsigned)(", place, "))");
  }

  template <typename F>
  absl::Status Group(F at_neighbour) {
    SplitPoint(body_, "r", facts_.num_outer, facts_.num_axes);
    const auto then = [&](CudaBody::Place place) {
      if (place == CudaBody::Place::kNeighbour) at_neighbour();
      return absl::OkStatus();
    };
    static const std::vector<uint32_t> kNone;
    return body_.WriteGroup({nodes_.inputs, kNone, then, ""});
  }

  absl::Status WholeRow(const SymExpr& size) {
    const char* type = body_.index_type();
    const std::string place =
        absl::StrCat(CudaBody::AxisName(facts_.num_axes - 1),
                     body_.vectors.width > 1 ? " + e" : "");
    out_.Open("for (", type, " r = t; r < ", body_.Index(groups_),
              "; r += ", v_.threads, ")");
    RETURN_IF_ERROR(
        Group([&] { out_.Line("keys[", place, "] = ", Key(), ";"); }));
    out_.Close();
    out_.Line("__syncthreads();");
    out_.Line("k_sort<", v_.threads, ">(keys, (int)", body_.Index(size), ");");
    return absl::OkStatus();
  }

  // Keys above the last of the places that are kept so far go nowhere.
  absl::Status Stream() {
    const char* type = body_.index_type();
    out_.Line("__shared__ int filled;");
    out_.Line("if (t == 0) filled = 0;");
    out_.Line("__syncthreads();");
    out_.Line("unsigned long long most = ~0ull;");
    const int step = v_.threads * v_.unroll;
    const std::vector<std::string> nothing_kept(nest_.body.size());
    LoadsAhead ahead(body_, nodes_.inputs, nothing_kept);
    ahead.Declare(v_.unroll);
    LoadTile(ahead, "t");
    out_.Open("for (", type, " tile = t; tile < ", body_.Index(groups_),
              " + t; tile += ", step, ")");
    out_.Line("bool adds = false;");
    OpenGroup("tile");
    if (!ahead.loads().empty()) ahead.Read("u");
    RETURN_IF_ERROR(Group([&] {
      const std::string key = body_.Fresh("k");
      out_.Line("const unsigned long long ", key, " = ", Key(), ";");
      out_.Line("if (", key, " < most) keys[atomicAdd(&filled, 1)] = ", key,
                ", adds = true;");
    }));
    CloseGroup();
    // On its way while the block waits and sorts.
    LoadTile(ahead, absl::StrCat("tile + ", step));
    out_.Line("if (!__syncthreads_or(adds)) continue;");
    out_.Open("if (filled > ", v_.full, ")");
    Keep();
    out_.Line("if (filled == ", v_.places, ") most = keys[", v_.places - 1,
              "];");
    out_.Close();
    out_.Line("__syncthreads();");
    out_.Close();
    Keep();
    return absl::OkStatus();
  }

  void LoadTile(LoadsAhead& ahead, const std::string& first) {
    if (ahead.loads().empty()) return;
    OpenGroup(first);
    SplitPoint(body_, "r", facts_.num_outer, facts_.num_axes);
    ahead.Load("u");
    CloseGroup();
  }

  // At each of the thread's groups of the tile whose first one is `first`.
  void OpenGroup(const std::string& first) {
    const char* type = body_.index_type();
    out_.Line("#pragma unroll");
    out_.Open("for (int u = 0; u < ", v_.unroll, "; ++u)");
    out_.Line("const ", type, " r = ", first, " + u * ", v_.threads, ";");
    out_.Open("if (r < ", body_.Index(groups_), ")");
  }
  void CloseGroup() {
    out_.Close();
    out_.Close();
  }

  // Sorts what is there, and keeps the places that are asked for.
  void Keep() {
    out_.Line("k_sort<", v_.threads, ">(keys, filled);");
    out_.Line("if (t == 0 && filled > ", v_.places, ") filled = ", v_.places,
              ";");
    out_.Line("__syncthreads();");
  }

  // Each place's stores, one by one.
  absl::Status Places(const SymExpr& size) {
    const char* type = body_.index_type();
    const std::string axis = CudaBody::AxisName(facts_.num_axes - 1);
    body_.SetVectors({facts_.num_axes - 1, 1, 0, false});
    const std::string n = body_.Index(size);
    out_.Open("for (", type, " ", axis, " = t; ", axis, " < ", v_.places,
              " && ", axis, " < ", n, "; ", axis, " += ", v_.threads, ")");
    body_.SetText(sort_,
                  absl::StrCat("((long long)(unsigned)keys[", axis, "])"));
    std::vector<uint32_t> stores;
    for (uint32_t s = 0; s < nest_.stores.size(); ++s) stores.push_back(s);
    RETURN_IF_ERROR(body_.WriteGroup(
        {nodes_.stored, stores,
         [](CudaBody::Place) { return absl::OkStatus(); }, ""}));
    out_.Close();
    return absl::OkStatus();
  }

  const CudaSorts& v_;
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const SymExpr groups_;  // of a row
  const SymExpr rows_;
  const ScannedNodes nodes_;
  const ScalarId sort_;
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaSorts(CudaBody& body,
                                        const CudaSorts& variant) {
  return SortsWriter(body, variant).Run();
}

}  // namespace kiln

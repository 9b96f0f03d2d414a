#include "compiler/codegen/cuda_selections.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/load_ahead.h"
#include "compiler/codegen/sort_writer.h"
#include "compiler/schedule/sort_memory.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class SelectionsWriter {
 public:
  SelectionsWriter(CudaBody& body, const CudaSelections& variant)
      : v_(variant), body_(body), out_(body.out), sort_(body) {}

  absl::StatusOr<CudaGrid> Run() {
    out_.Line("extern __shared__ unsigned long long keys[];");
    RETURN_IF_ERROR(sort_.OpenRow());
    RETURN_IF_ERROR(Stream());
    RETURN_IF_ERROR(sort_.StorePlaces(
        v_.threads,
        absl::StrCat("((long long)(unsigned)keys[", sort_.axis(), "])")));
    CudaGrid grid = sort_.CloseRow(v_.blocks);
    grid.shared_bytes = SharedBytesOf(v_);
    return grid;
  }

 private:
  // Keys above the last of the places that are kept so far go nowhere.
  absl::Status Stream() {
    const char* type = body_.index_type();
    out_.Line("__shared__ int filled;");
    out_.Line("if (t == 0) filled = 0;");
    out_.Line("__syncthreads();");
    out_.Line("unsigned long long most = ~0ull;");
    const int step = v_.threads * v_.unroll;
    const std::vector<std::string> nothing_kept(body_.nest.body.size());
    LoadsAhead ahead(body_, sort_.nodes().inputs, nothing_kept);
    ahead.Declare(v_.unroll);
    LoadTile(ahead, "t");
    out_.Open("for (", type, " tile = t; tile < ", body_.Index(sort_.groups()),
              " + t; tile += ", step, ")");
    out_.Line("bool adds = false;");
    OpenGroup("tile");
    if (!ahead.loads().empty()) ahead.Read("u");
    RETURN_IF_ERROR(sort_.Group([&] {
      const std::string key = body_.Fresh("k");
      out_.Line("const unsigned long long ", key, " = (unsigned long long)",
                sort_.Order(), " << 32 | (unsigned)", sort_.Place(), ";");
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
    SplitPoint(body_, "r", body_.facts.num_outer, body_.facts.num_axes);
    ahead.Load("u");
    CloseGroup();
  }

  // At each of the thread's groups of the tile whose first one is `first`.
  void OpenGroup(const std::string& first) {
    const char* type = body_.index_type();
    out_.Line("#pragma unroll");
    out_.Open("for (int u = 0; u < ", v_.unroll, "; ++u)");
    out_.Line("const ", type, " r = ", first, " + u * ", v_.threads, ";");
    out_.Open("if (r < ", body_.Index(sort_.groups()), ")");
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

  const CudaSelections& v_;
  CudaBody& body_;
  CWriter& out_;
  SortWriter sort_;
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaSelections(CudaBody& body,
                                             const CudaSelections& variant) {
  return SelectionsWriter(body, variant).Run();
}

}  // namespace kiln

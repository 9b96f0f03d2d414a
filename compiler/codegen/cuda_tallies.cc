#include "compiler/codegen/cuda_tallies.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/load_ahead.h"
#include "compiler/codegen/scanned_nodes.h"
#include "compiler/schedule/tally_tiles.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

int BitsOf(int values) {
  int bits = 1;
  while ((1 << bits) < values) ++bits;
  return bits;
}

std::vector<ScalarId> Both(const std::vector<ScalarId>& a,
                           const std::vector<ScalarId>& b) {
  std::vector<ScalarId> both;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(),
                 std::back_inserter(both));
  return both;
}

class TalliesWriter {
 public:
  TalliesWriter(CudaBody& body, const CudaTallies& variant)
      : v_(variant),
        body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        type_(body.index_type()),
        end_(body.Index(facts_.extents[facts_.num_axes - 1])),
        nodes_(NodesOfScans(body.nest, body.facts)),
        tally_(nodes_.ops[0]),
        nothing_kept_(body.nest.body.size()),
        ahead_(body, Both(nodes_.inputs, nodes_.stored), nothing_kept_) {}

  absl::StatusOr<CudaGrid> Run() {
    const SymExpr tiles = TilesOf(v_, facts_.extents[facts_.num_axes - 1]);
    OpenTile(tiles);
    RETURN_IF_ERROR(Ranks());
    Places();
    std::string last;  // the address that `to` has
    for (uint32_t s = 0; s < nest_.stores.size(); ++s)
      RETURN_IF_ERROR(StoreInOrder(s, last));
    const SymExpr blocks = PointsOf(body_, 0, facts_.num_outer) * tiles;
    out_.Line("k_leave<", v_.threads, ">(counters, (unsigned)",
              body_.Index(blocks), ");");
    return CudaGrid{.blocks = blocks, .shared_bytes = SharedBytes()};
  }

 private:
  int Warps() const { return v_.threads / 32; }
  int64_t SharedBytes() const {
    return SharedBytesOf(v_, WidestCell(nest_, body_.buffers, facts_));
  }

  void OpenTile(const SymExpr& tiles) {
    const std::string count = body_.Index(tiles);
    // Of each warp, then of all: where a value begins in the tile, and how many
    // the tiles before have.
    out_.Line("extern __shared__ unsigned long long shared[];");
    out_.Line("unsigned* const counts = (unsigned*)shared;");
    out_.Line("unsigned* const starts = counts + ", Warps() * v_.values, ";");
    out_.Line("unsigned* const earlier = starts + ", v_.values, ";");
    out_.Line("void* const cells = counts + ", CountWordsOf(v_), ";");
    out_.Line("const int t = (int)threadIdx.x;");
    out_.Line("for (int i = t; i < ", Warps() * v_.values,
              "; i += ", v_.threads, ") counts[i] = 0u;");
    // Its barrier also stands behind the zeros.
    out_.Line("const unsigned block = k_ticket(counters);");
    out_.Line("const ", type_, " row = (", type_, ")(block / (unsigned)", count,
              ");");
    out_.Line("const unsigned tile = block % (unsigned)", count, ";");
    out_.Line("const ", type_, " begin = (", type_, ")tile * ", TileOf(v_),
              ";");
    out_.Line("const ", type_, " base = begin + t / 32 * ", 32 * v_.run,
              " + t % 32;");
    SplitPoint(body_, "row", 0, facts_.num_outer);
  }

  // Each of the thread's points, 32 apart.
  void OpenPoints() {
    out_.Line("#pragma unroll");
    out_.Open("for (int u = 0; u < ", v_.run, "; ++u)");
    out_.Line("const ", type_, " r = base + u * 32;");
  }
  void OpenLive() {
    out_.Open("if (r < ", end_, ")");
    SplitPoint(body_, "r", facts_.num_outer, facts_.num_axes);
  }
  void Close2() {
    out_.Close();
    out_.Close();
  }

  // The value of each point, and how many of the warp's points before have it.
  absl::Status Ranks() {
    for (ScalarId id : nodes_.outer) RETURN_IF_ERROR(body_.Node(id));
    ahead_.Declare(v_.run);
    if (!ahead_.loads().empty()) {
      OpenPoints();
      OpenLive();
      ahead_.Load("u");
      Close2();
    }
    out_.Line("int value[", v_.run, "];");
    out_.Line("unsigned rank[", v_.run, "];");
    OpenPoints();
    out_.Line("value[u] = 0;");
    OpenLive();
    ahead_.Read("u");
    for (ScalarId id : nodes_.inputs) RETURN_IF_ERROR(body_.Node(id));
    out_.Line("value[u] = ", body_.Text(nest_.body[tally_].args[0]), ";");
    out_.Close();
    out_.Line("rank[u] = k_tally<", BitsOf(v_.values), ">(counts + t / 32 * ",
              v_.values, ", value[u], r < ", end_, ");");
    out_.Close();
    return absl::OkStatus();
  }

  // From ranks in a warp to ranks in the row, and to places in the tile.
  void Places() {
    out_.Line("__syncthreads();");
    out_.Line("const unsigned total = k_tally_warps<", Warps(), ", ", v_.values,
              ">(counts);");
    out_.Line("unsigned start[1] = {total};");
    out_.Line("k_scan<", v_.threads, ", ", v_.threads,
              ">(start, 0u, 0u, [](unsigned a, unsigned b) { return a + b; "
              "});");
    out_.Line("const unsigned before = k_tallies_before<", v_.values,
              ">((unsigned*)w, counters + 2, block, tile, total);");
    out_.Line("if (t < ", v_.values,
              ") starts[t] = start[0], earlier[t] = before;");
    out_.Line("__syncthreads();");
    out_.Line("int place[", v_.run, "];");
    out_.Line("#pragma unroll");
    out_.Open("for (int u = 0; u < ", v_.run, "; ++u)");
    out_.Line("rank[u] += counts[t / 32 * ", v_.values, " + value[u]];");
    out_.Line("place[u] = (int)(starts[value[u]] + rank[u]);");
    out_.Line("rank[u] += earlier[value[u]];");
    out_.Close();
    out_.Line("const int count = ", end_, " - begin < ", TileOf(v_),
              " ? (int)(", end_, " - begin) : ", TileOf(v_), ";");
    out_.Line(type_, " to[", v_.run, "];");
    body_.SetText(tally_, "(int)rank[u]");
  }

  // `cell` at each point's place; then `read` at each place that the thread takes
  // over.
  absl::Status Exchange(const std::string& type,
                        absl::FunctionRef<std::string()> cell,
                        const std::string& read) {
    out_.Line("__syncthreads();");
    OpenPoints();
    OpenLive();
    ahead_.Read("u");
    for (ScalarId id : nodes_.stored) RETURN_IF_ERROR(body_.Node(id));
    out_.Line("((", type, "*)cells)[place[u]] = ", cell(), ";");
    Close2();
    out_.Line("__syncthreads();");
    out_.Line("#pragma unroll");
    out_.Open("for (int u = 0; u < ", v_.run, "; ++u)");
    out_.Line("const int q = u * ", v_.threads, " + t;");
    out_.Line(read);
    out_.Close();
    return absl::OkStatus();
  }

  absl::Status StoreInOrder(uint32_t s, std::string& last) {
    const Store& store = nest_.stores[s];
    const SymExpr& offset = facts_.store_offset[s];
    const std::string address = absl::StrCat(offset.ToString(), " where ",
                                             static_cast<int64_t>(store.mask));
    if (address != last) {
      RETURN_IF_ERROR(Exchange(
          type_,
          [&] {
            const std::string at = body_.Index(offset);
            return store.mask == Store::kNoMask
                       ? at
                       : absl::StrCat(body_.Text(store.mask), " ? (", type_,
                                      ")(", at, ") : -1");
          },
          absl::StrCat("to[u] = q < count ? ((", type_, "*)cells)[q] : -1;")));
    }
    last = address;
    const std::string type(CTypeName(body_.buffers[store.buffer].dtype));
    return Exchange(
        type, [&] { return body_.Text(store.value); },
        absl::StrCat("if (to[u] >= 0) ", body_.BufferName(store.buffer),
                     "[to[u]] = ((", type, "*)cells)[q];"));
  }

  const CudaTallies& v_;
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const std::string type_;  // of indices
  const std::string end_;   // points of a row
  const ScannedNodes nodes_;
  const ScalarId tally_;
  const std::vector<std::string> nothing_kept_;
  LoadsAhead ahead_;
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaTallies(CudaBody& body,
                                          const CudaTallies& variant) {
  return TalliesWriter(body, variant).Run();
}

}  // namespace kiln

#include "compiler/codegen/cuda_tiles.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/load_ahead.h"
#include "compiler/schedule/tile_accesses.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class TileWriter {
 public:
  TileWriter(CudaBody& body, const CudaTiles& variant)
      : v_(variant),
        body_(body),
        facts_(body.facts),
        nest_(body.nest),
        out_(body.out),
        across_(static_cast<uint32_t>(variant.axis)),
        last_(body.facts.num_outer - 1),
        along_{variant.vector, variant.edge / variant.vector, variant.depth},
        deep_{variant.across, variant.depth / variant.across, variant.edge} {}

  absl::Status Run(const KernelPasses& passes, SymExpr& grid) {
    const TileAccesses tiled = AccessesAcross(nest_, facts_, body_.buffers,
                                              across_, v_.edge, v_.depth);
    Place(grid);
    std::vector<std::string> loads(nest_.body.size());
    std::vector<std::string> stores(nest_.stores.size());
    for (ScalarId id : tiled.loads) loads[id] = Tile(nest_.body[id].dtype);
    for (uint32_t s : tiled.stores) stores[s] = Tile(Dtype(s));

    // All loads are under way before the first value is used.
    body_.SetVectors({across_, v_.across, 0, false});
    const std::vector<std::string> packs = LoadAcross(tiled.loads);
    body_.SetVectors({last_, v_.vector, 0, false});
    LoadsAhead ahead(body_, passes.last, loads);
    if (!ahead.loads().empty()) {
      ahead.Declare(along_.steps());
      OpenAlong();
      ahead.Load(along_.Step());
      CloseBoth();
    }
    body_.SetVectors({across_, v_.across, 0, false});
    PutAcross(tiled.loads, packs, loads);
    out_.Line("__syncthreads();");

    body_.SetVectors({last_, v_.vector, 0, false});
    OpenAlong();
    ahead.Read(along_.Step());
    for (ScalarId id : tiled.loads)
      body_.ReadCell(id, absl::StrCat(loads[id], "[", along_.Inside(), "][",
                                      along_.Beside(), "]"));
    std::vector<uint32_t> plain;
    for (uint32_t s : passes.last_stores)
      if (stores[s].empty()) plain.push_back(s);
    const auto then = [&](CudaBody::Place place) {
      if (place != CudaBody::Place::kNeighbour) return absl::OkStatus();
      for (uint32_t s : tiled.stores)
        out_.Line(stores[s], "[", along_.Inside(), "][", along_.Beside(),
                  "] = ", body_.Text(nest_.stores[s].value), ";");
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(body_.WriteGroup({passes.last, plain, then, ""}));
    CloseBoth();

    if (tiled.stores.empty()) return absl::OkStatus();
    out_.Line("__syncthreads();");
    StoreAcross(tiled.stores, stores);
    return absl::OkStatus();
  }

 private:
  // Threads side by side run along one axis, each with `width` elements, and go
  // through the tile's `length` points of the other axis in steps.
  struct Walk {
    int width, side, length;

    int rows() const { return kTileThreads / side; }
    int steps() const { return length / rows(); }
    std::string Step() const { return absl::StrCat("k / ", rows()); }
    // Where the thread's first element stands among the tile's, along the axis of
    // the threads side by side and along the other.
    std::string First() const {
      return absl::StrCat("(int)threadIdx.x % ", side, " * ", width);
    }
    std::string Inside() const {
      return absl::StrCat(First(), width > 1 ? " + e" : "");
    }
    std::string Beside() const {
      return absl::StrCat("(int)threadIdx.x / ", side, " + k");
    }
  };

  DType Dtype(uint32_t s) const {
    return body_.buffers[nest_.stores[s].buffer].dtype;
  }

  // A row for each point of the last axis, a word longer than the tile is deep, so
  // that a column's cells lie in different banks.
  std::string Tile(DType dtype) {
    const std::string name = body_.Fresh("s_");
    const int64_t pad = std::max<int64_t>(1, 4 / SizeInBytes(dtype));
    out_.Line("__shared__ ", CTypeName(dtype), " ", name, "[", v_.edge, "][",
              v_.depth + pad, "];");
    return name;
  }

  // The block's tile and its place on the other axes.
  void Place(SymExpr& grid) {
    const char* type = body_.index_type();
    out_.Line("unsigned q = blockIdx.x;");
    grid = 1;
    for (uint32_t axis = facts_.num_outer; axis-- > 0;) {
      const bool tiled = axis == last_ || axis == across_;
      const int edge = axis == last_ ? v_.edge : v_.depth;
      const SymExpr count =
          tiled ? CeilDiv(facts_.extents[axis], edge) : facts_.extents[axis];
      grid = grid * count;
      const std::string n = absl::StrCat("(unsigned)", body_.Index(count));
      const std::string part = axis == 0 ? "q" : absl::StrCat("(q % ", n, ")");
      if (tiled) {
        out_.Line("const ", type, " first", axis, " = (", type, ")", part,
                  " * ", edge, ";");
      } else {
        out_.Line("const ", type, " ", CudaBody::AxisName(axis), " = (", type,
                  ")", part, ";");
      }
      if (axis > 0) out_.Line("q /= ", n, ";");
    }
  }

  // --- Threads side by side run along the other axis.

  void OpenAcross() { Open(deep_, deep_.First(), deep_.Beside()); }

  // Loads into packs, whose names are returned.
  std::vector<std::string> LoadAcross(const std::vector<ScalarId>& ids) {
    std::vector<std::string> packs;
    if (ids.empty()) return packs;
    for (ScalarId id : ids) {
      packs.push_back(body_.Fresh("l"));
      out_.Line(body_.PackType(id), " ", packs.back(), "[", deep_.steps(),
                "] = {};");
    }
    OpenAcross();
    for (size_t i = 0; i < ids.size(); ++i)
      body_.LoadAhead(ids[i], absl::StrCat(packs[i], "[", deep_.Step(), "]"));
    CloseBoth();
    return packs;
  }

  void PutAcross(const std::vector<ScalarId>& ids,
                 const std::vector<std::string>& packs,
                 const std::vector<std::string>& tiles) {
    if (ids.empty()) return;
    OpenAcross();
    for (size_t i = 0; i < ids.size(); ++i) {
      out_.Line("#pragma unroll");
      out_.Line("for (int e = 0; e < ", v_.across, "; ++e) ", tiles[ids[i]],
                "[", deep_.Beside(), "][", deep_.First(), " + e] = k_at(",
                packs[i], "[", deep_.Step(), "], e);");
    }
    CloseBoth();
  }

  void StoreAcross(const std::vector<uint32_t>& ids,
                   const std::vector<std::string>& tiles) {
    body_.SetVectors({across_, v_.across, 0, false});
    OpenAcross();
    for (uint32_t s : ids) {
      const SymExpr& offset = facts_.store_offset[s];
      const Buffer& buffer = body_.buffers[nest_.stores[s].buffer];
      const std::string to = absl::StrCat(
          body_.BufferName(nest_.stores[s].buffer), " + ", body_.Index(offset));
      const std::string cell = absl::StrCat(tiles[s], "[", deep_.Beside(), "][",
                                            deep_.First(), " + e]");
      if (IsWideAccess(buffer, offset, body_.vectors, facts_) &&
          v_.across > 1) {
        const std::string pack = body_.Fresh("w");
        out_.Line("k_pack<", CTypeName(buffer.dtype), ", ", v_.across, "> ",
                  pack, " = {};");
        out_.Line("#pragma unroll");
        out_.Line("for (int e = 0; e < ", v_.across, "; ++e) k_put(", pack,
                  ", e, ", cell, ");");
        out_.Line("k_store(", to, ", ", pack, ");");
      } else {
        out_.Line("#pragma unroll");
        out_.Line("for (int e = 0; e < ", v_.across, "; ++e) (", to,
                  ")[e] = ", cell, ";");
      }
    }
    CloseBoth();
  }

  // --- Threads side by side run along the last axis.
  void OpenAlong() { Open(along_, along_.Beside(), along_.First()); }

  void Open(const Walk& walk, const std::string& across,
            const std::string& along) {
    const char* type = body_.index_type();
    const std::string a = CudaBody::AxisName(across_);
    const std::string l = CudaBody::AxisName(last_);
    out_.Line("#pragma unroll");
    out_.Open("for (int k = 0; k < ", walk.length, "; k += ", walk.rows(), ")");
    out_.Line("const ", type, " ", a, " = first", across_, " + ", across, ";");
    out_.Line("const ", type, " ", l, " = first", last_, " + ", along, ";");
    out_.Open("if (", a, " < ", body_.Index(facts_.extents[across_]), " && ", l,
              " < ", body_.Index(facts_.extents[last_]), ")");
  }
  void CloseBoth() {
    out_.Close();
    out_.Close();
  }

  const CudaTiles& v_;
  CudaBody& body_;
  const NestFacts& facts_;
  const LoopNest& nest_;
  CWriter& out_;
  const uint32_t across_;
  const uint32_t last_;
  const Walk along_;  // side by side along the last axis
  const Walk deep_;   // side by side along the other axis
};

}  // namespace

absl::Status WriteCudaTiles(CudaBody& body, const CudaTiles& variant,
                            const KernelPasses& passes, SymExpr& grid) {
  return TileWriter(body, variant).Run(passes, grid);
}

}  // namespace kiln

#include "compiler/codegen/cuda_tiles.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/load_ahead.h"
#include "compiler/schedule/tile_walks.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class TileWriter {
 public:
  TileWriter(CudaBody& body, const CudaTiles& variant)
      : body_(body),
        facts_(body.facts),
        nest_(body.nest),
        out_(body.out),
        walks_(
            WalksOf(variant, body.nest, body.facts, body.buffers, body.shapes)),
        along_{walks_.along_last()},
        deep_{walks_.along_other()} {
    body.loads_past_ends = variant.peel != 0;
  }

  absl::Status Run(const KernelPasses& passes, SymExpr& grid) {
    const TileAccesses& tiled = walks_.through;
    Place(grid);
    std::vector<std::string> loads(nest_.body.size());
    std::vector<std::string> stores(nest_.stores.size());
    for (ScalarId id : tiled.loads) loads[id] = Tile(nest_.body[id].dtype);
    for (uint32_t s : tiled.stores) stores[s] = Tile(Dtype(s));

    // All loads are under way before the first value is used.
    body_.SetVectors(walks_.other.vectors);
    const std::vector<std::string> packs = LoadAcross(tiled.loads);
    body_.SetVectors(walks_.last.vectors);
    LoadsAhead ahead(body_, passes.last, loads);
    if (!ahead.loads().empty()) {
      ahead.Declare(along_.walk.Steps());
      Open(along_);
      ahead.Load(along_.Step());
      Close();
    }
    body_.SetVectors(walks_.other.vectors);
    PutAcross(tiled.loads, packs, loads);
    out_.Line("__syncthreads();");

    body_.SetVectors(walks_.last.vectors);
    Open(along_);
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
    // The tile has places for whole groups.
    RETURN_IF_ERROR(body_.WriteGroup({passes.last, plain, then, "", true}));
    Close();

    if (tiled.stores.empty()) return absl::OkStatus();
    out_.Line("__syncthreads();");
    StoreAcross(tiled.stores, stores);
    return absl::OkStatus();
  }

 private:
  // A walk in the words of the kernel, whose loop counts `k`.
  struct Walk {
    TileWalk walk;

    const TileSide& side() const { return walk.side; }
    const TileSide& rows() const { return walk.rows; }
    int width() const { return side().vectors.width; }
    int Stride() const {
      return walk.IsEven() ? kTileThreads / side().Groups() : kTileThreads;
    }
    int End() const { return walk.Steps() * Stride(); }
    std::string Step() const { return absl::StrCat("k / ", Stride()); }
    std::string Thread() const {
      return walk.IsEven() ? "(int)threadIdx.x" : "n";
    }
    // The thread's group in its row, and its row.
    std::string Group() const {
      return absl::StrCat(Thread(), " % ", side().Groups());
    }
    std::string Row() const {
      return absl::StrCat(Thread(), " / ", side().Groups(),
                          walk.IsEven() ? " + k" : "");
    }
    // Where the group's first element, counted from the tile's first, and the row are.
    std::string First() const {
      return absl::StrCat(Group(), " * ", width(),
                          side().RowsAreShifted() ? " - shift" : "");
    }
    std::string RowFromFirst() const {
      return absl::StrCat(Row(), Plus(-rows().Before()));
    }
    // Their places in shared memory; that of element `e`, if a group has several.
    std::string Inside() const {
      return absl::StrCat(First(), Plus(side().Lead()),
                          width() > 1 ? " + e" : "");
    }
    std::string Beside() const {
      return absl::StrCat(Row(), Plus(rows().Lead() - rows().Before()));
    }
    static std::string Plus(int n) {
      if (n == 0) return "";
      return n > 0 ? absl::StrCat(" + ", n) : absl::StrCat(" - ", -n);
    }
  };

  DType Dtype(uint32_t s) const {
    return body_.buffers[nest_.stores[s].buffer].dtype;
  }

  // A row for each place on the last axis, a word longer than it needs, so that a
  // column's cells lie in different banks.
  std::string Tile(DType dtype) {
    const std::string name = body_.Fresh("s_");
    const int64_t pad = std::max<int64_t>(1, 4 / SizeInBytes(dtype));
    out_.Line("__shared__ ", CTypeName(dtype), " ", name, "[",
              walks_.last.Places(), "][", walks_.other.Places() + pad, "];");
    return name;
  }

  // The block's tile and its place on the other axes.
  void Place(SymExpr& grid) {
    const char* type = body_.index_type();
    out_.Line("unsigned q = blockIdx.x;");
    grid = 1;
    for (uint32_t axis = facts_.num_outer; axis-- > 0;) {
      const TileSide* side = axis == walks_.last.axis    ? &walks_.last
                             : axis == walks_.other.axis ? &walks_.other
                                                         : nullptr;
      // Where the border follows groups, it is before the axis' end in some rows.
      const SymExpr count =
          side != nullptr
              ? CeilDiv(facts_.extents[axis] + int64_t{side->Before()},
                        int64_t{side->length})
              : facts_.extents[axis];
      grid = grid * count;
      const std::string n = absl::StrCat("(unsigned)", body_.Index(count));
      const std::string part = axis == 0 ? "q" : absl::StrCat("(q % ", n, ")");
      if (side != nullptr) {
        out_.Line("const ", type, " first", axis, " = (", type, ")", part,
                  " * ", side->length, ";");
      } else {
        out_.Line("const ", type, " ", CudaBody::AxisName(axis), " = (", type,
                  ")", part, ";");
      }
      if (axis > 0) out_.Line("q /= ", n, ";");
    }
  }

  // Opens the loop over the thread's groups and declares where the group is, if there
  // is one.
  void Open(const Walk& walk) {
    const TileSide& side = walk.side();
    const TileSide& rows = walk.rows();
    const char* type = body_.index_type();
    const std::string row = CudaBody::AxisName(rows.axis);
    const std::string at = CudaBody::AxisName(side.axis);
    const std::string extent = body_.Index(facts_.extents[side.axis]);
    out_.Line("#pragma unroll");
    out_.Open("for (int k = 0; k < ", walk.End(), "; k += ", walk.Stride(),
              ")");
    if (!walk.walk.IsEven()) out_.Line("const int n = (int)threadIdx.x + k;");
    out_.Line("const ", type, " ", row, " = first", rows.axis, " + ",
              walk.RowFromFirst(), ";");
    out_.Open("if (",
              walk.walk.IsEven()
                  ? ""
                  : absl::StrCat("n < ", walk.walk.Groups(), " && "),
              rows.Before() > 0 ? row + " >= 0 && " : "", row, " < ",
              body_.Index(facts_.extents[rows.axis]), ")");
    if (side.RowsAreShifted())
      out_.Line("const int shift = (int)((unsigned)(",
                body_.Index(side.vectors.rest), ") & ", walk.width() - 1,
                "u);");
    out_.Line("const ", type, " ", at, " = first", side.axis, " + ",
              walk.First(), ";");
    if (!side.vectors.cut) {
      out_.Open("if (", at, " < ", extent, ")");
      return;
    }
    PartOfGroup(walk, at, extent);
    out_.Open("if (hi > lo)");
  }

  // Declares which elements of the group that begins at `at` are the tile's.
  void PartOfGroup(const Walk& walk, const std::string& at,
                   const std::string& extent) {
    const TileSide& side = walk.side();
    std::string lo = "0", end = extent;
    if (side.RowsAreShifted() && side.follows) {
      lo = absl::StrCat(at, " >= 0 ? 0 : (int)-", at);
    } else if (side.RowsAreShifted()) {
      lo = absl::StrCat(walk.Group(), " == 0 ? shift : 0");
      end = absl::StrCat("end", side.axis);
      const std::string first = absl::StrCat("first", side.axis);
      out_.Line("const ", body_.index_type(), " ", end, " = ", extent, " - ",
                first, " < ", side.length, " ? ", extent, " : ", first, " + ",
                side.length, ";");
    }
    out_.Line("const int lo = ", lo, ";");
    out_.Line("const int hi = ", end, " - ", at, " >= ", walk.width(), " ? ",
              walk.width(), " : (int)(", end, " - ", at, ");");
  }

  void Close() {
    out_.Close();
    out_.Close();
    out_.Close();
  }

  // --- Threads side by side run along the other axis.

  // Loads into packs, whose names are returned.
  std::vector<std::string> LoadAcross(const std::vector<ScalarId>& ids) {
    std::vector<std::string> packs;
    if (ids.empty()) return packs;
    for (ScalarId id : ids) {
      packs.push_back(body_.Fresh("l"));
      out_.Line(body_.PackType(id), " ", packs.back(), "[", deep_.walk.Steps(),
                "] = {};");
    }
    Open(deep_);
    for (size_t i = 0; i < ids.size(); ++i)
      body_.LoadAhead(ids[i], absl::StrCat(packs[i], "[", deep_.Step(), "]"));
    Close();
    return packs;
  }

  void PutAcross(const std::vector<ScalarId>& ids,
                 const std::vector<std::string>& packs,
                 const std::vector<std::string>& tiles) {
    if (ids.empty()) return;
    Open(deep_);
    for (size_t i = 0; i < ids.size(); ++i) {
      out_.Line("#pragma unroll");
      out_.Line("for (int e = 0; e < ", deep_.width(), "; ++e) ",
                Cell(tiles[ids[i]]), " = k_at(", packs[i], "[", deep_.Step(),
                "], e);");
    }
    Close();
  }

  void StoreAcross(const std::vector<uint32_t>& ids,
                   const std::vector<std::string>& tiles) {
    body_.SetVectors(walks_.other.vectors);
    const bool cut = body_.vectors.cut;
    Open(deep_);
    for (uint32_t s : ids) {
      const SymExpr& offset = facts_.store_offset[s];
      const Buffer& buffer = body_.buffers[nest_.stores[s].buffer];
      const std::string to = absl::StrCat(
          body_.BufferName(nest_.stores[s].buffer), " + ", body_.Index(offset));
      const std::string cell = Cell(tiles[s]);
      const std::string each =
          absl::StrCat("for (int e = 0; e < ", deep_.width(), "; ++e) ");
      if (IsWideAccess(buffer, offset, body_.vectors, facts_) &&
          deep_.width() > 1) {
        const std::string pack = body_.Fresh("w");
        out_.Line("k_pack<", CTypeName(buffer.dtype), ", ", deep_.width(), "> ",
                  pack, " = {};");
        out_.Line("#pragma unroll");
        out_.Line(each, "k_put(", pack, ", e, ", cell, ");");
        out_.Line(cut ? "k_store_part(" : "k_store(", to,
                  cut ? ", lo, hi, " : ", ", pack, ");");
      } else {
        out_.Line("#pragma unroll");
        out_.Line(each, cut ? "if (e >= lo && e < hi) " : "", "(", to,
                  ")[e] = ", cell, ";");
      }
    }
    Close();
  }

  std::string Cell(const std::string& tile) const {
    // A group of one element has no `e` in its place.
    return absl::StrCat(tile, "[", deep_.Beside(), "][", deep_.Inside(), "]");
  }

  CudaBody& body_;
  const NestFacts& facts_;
  const LoopNest& nest_;
  CWriter& out_;
  const TileWalks walks_;
  const Walk along_;  // side by side along the last axis
  const Walk deep_;   // side by side along the other axis
};

}  // namespace

absl::Status WriteCudaTiles(CudaBody& body, const CudaTiles& variant,
                            const KernelPasses& passes, SymExpr& grid) {
  return TileWriter(body, variant).Run(passes, grid);
}

}  // namespace kiln

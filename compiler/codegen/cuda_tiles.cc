#include "compiler/codegen/cuda_tiles.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int kTile = 32;  // a warp reads a row of it
constexpr int kStep = kTileThreads / kTile;
// Shared memory of one kernel, all tiles together.
constexpr int64_t kMaxTileBytes = 40 << 10;
constexpr int64_t kCellsOfTile = kTile * (kTile + 1);

// Along the tile's other axis, and through nothing that was loaded.
bool IsAcross(const CudaBody& body, uint32_t across, const SymExpr& offset) {
  const NestFacts& facts = body.facts;
  if (MotionOf(offset, across, facts) != Motion::kContiguous) return false;
  if (MotionOf(offset, facts.num_outer - 1, facts) != Motion::kStrided)
    return false;
  bool direct = true;
  offset.VisitVars(
      [&](Var var) { direct &= var.kind != Var::Kind::kIndirect; });
  return direct;
}

bool IsAcrossLoad(const CudaBody& body, uint32_t across, ScalarId id) {
  const ScalarNode& node = body.nest.body[id];
  return node.op == ScalarOp::kLoad && node.args.empty() &&
         IsAcross(body, across, body.facts.load_offset[id]);
}

bool IsAcrossStore(const CudaBody& body, uint32_t across, uint32_t s) {
  const Store& store = body.nest.stores[s];
  return store.mode == StoreMode::kSet && store.mask == Store::kNoMask &&
         IsAcross(body, across, body.facts.store_offset[s]);
}

class TileWriter {
 public:
  TileWriter(CudaBody& body, int tile_axis)
      : body_(body),
        facts_(body.facts),
        nest_(body.nest),
        out_(body.out),
        across_(static_cast<uint32_t>(tile_axis)),
        last_(body.facts.num_outer - 1) {}

  absl::Status Run(const KernelPasses& passes, SymExpr& grid) {
    Place(grid);
    std::vector<std::string> loads(nest_.body.size());
    std::vector<std::string> stores(nest_.stores.size());
    for (ScalarId id : passes.last)
      if (IsAcrossLoad(id) && Take(nest_.body[id].dtype))
        loads[id] = Tile(nest_.body[id].dtype);
    for (uint32_t s : passes.last_stores)
      if (IsAcrossStore(s) && Take(Dtype(s))) stores[s] = Tile(Dtype(s));

    OpenAcross();
    for (ScalarId id : passes.last)
      if (!loads[id].empty())
        out_.Line(loads[id],
                  "[y + k][x] = ", body_.BufferName(nest_.body[id].buffer), "[",
                  body_.Index(facts_.load_offset[id]), "];");
    CloseBoth();
    out_.Line("__syncthreads();");

    OpenAlong();
    for (ScalarId id : passes.last) {
      if (loads[id].empty()) {
        RETURN_IF_ERROR(body_.Node(id));
      } else {
        body_.SetText(id, absl::StrCat(loads[id], "[x][y + k]"));
      }
    }
    std::vector<uint32_t> plain;
    for (uint32_t s : passes.last_stores) {
      if (stores[s].empty()) {
        plain.push_back(s);
      } else {
        out_.Line(stores[s], "[x][y + k] = ", body_.Text(nest_.stores[s].value),
                  ";");
      }
    }
    static const std::vector<ScalarId> kNone;
    RETURN_IF_ERROR(body_.WriteGroup(
        {kNone, plain, [](bool) { return absl::OkStatus(); }, ""}));
    CloseBoth();

    if (plain.size() == passes.last_stores.size()) return absl::OkStatus();
    out_.Line("__syncthreads();");
    OpenAcross();
    for (uint32_t s : passes.last_stores)
      if (!stores[s].empty())
        out_.Line(body_.BufferName(nest_.stores[s].buffer), "[",
                  body_.Index(facts_.store_offset[s]), "] = ", stores[s],
                  "[y + k][x];");
    CloseBoth();
    return absl::OkStatus();
  }

 private:
  bool IsAcrossLoad(ScalarId id) const {
    return kiln::IsAcrossLoad(body_, across_, id);
  }
  bool IsAcrossStore(uint32_t s) const {
    return kiln::IsAcrossStore(body_, across_, s);
  }
  DType Dtype(uint32_t s) const {
    return body_.buffers[nest_.stores[s].buffer].dtype;
  }

  bool Take(DType dtype) {
    const int64_t bytes = kCellsOfTile * SizeInBytes(dtype);
    if (used_bytes_ + bytes > kMaxTileBytes) return false;
    used_bytes_ += bytes;
    return true;
  }
  // One column more than the tile has, so that a column's cells lie in
  // different banks.
  std::string Tile(DType dtype) {
    const std::string name = body_.Fresh("s_");
    out_.Line("__shared__ ", CTypeName(dtype), " ", name, "[", kTile, "][",
              kTile + 1, "];");
    return name;
  }

  // The block's tile and its place on the other axes.
  void Place(SymExpr& grid) {
    const char* type = body_.index_type();
    out_.Line("const int x = (int)threadIdx.x % ", kTile, ";");
    out_.Line("const int y = (int)threadIdx.x / ", kTile, ";");
    out_.Line(type, " q = (", type, ")blockIdx.x;");
    grid = 1;
    for (uint32_t axis = facts_.num_outer; axis-- > 0;) {
      const bool tiled = axis == last_ || axis == across_;
      const SymExpr count =
          tiled ? CeilDiv(facts_.extents[axis], kTile) : facts_.extents[axis];
      grid = grid * count;
      const std::string n = body_.Index(count);
      const std::string part = axis == 0 ? "q" : absl::StrCat("q % ", n);
      if (tiled) {
        out_.Line("const ", type, " first", axis, " = (", part, ") * ", kTile,
                  ";");
      } else {
        out_.Line("const ", type, " ", CudaBody::AxisName(axis), " = ", part,
                  ";");
      }
      if (axis > 0) out_.Line("q /= ", n, ";");
    }
  }

  // Threads side by side run along the other axis.
  void OpenAcross() { Open("x", "y + k"); }
  // Threads side by side run along the last axis.
  void OpenAlong() { Open("y + k", "x"); }

  void Open(const char* across, const char* along) {
    const char* type = body_.index_type();
    const std::string a = CudaBody::AxisName(across_);
    const std::string l = CudaBody::AxisName(last_);
    out_.Line("#pragma unroll");
    out_.Open("for (int k = 0; k < ", kTile, "; k += ", kStep, ")");
    out_.Line("const ", type, " ", a, " = first", across_, " + ", across, ";");
    out_.Line("const ", type, " ", l, " = first", last_, " + ", along, ";");
    out_.Open("if (", a, " < ", body_.Index(facts_.extents[across_]), " && ", l,
              " < ", body_.Index(facts_.extents[last_]), ")");
  }
  void CloseBoth() {
    out_.Close();
    out_.Close();
  }

  CudaBody& body_;
  const NestFacts& facts_;
  const LoopNest& nest_;
  CWriter& out_;
  const uint32_t across_;
  const uint32_t last_;
  int64_t used_bytes_ = 0;
};

}  // namespace

bool WantsTiles(const CudaBody& body, int tile_axis) {
  if (tile_axis < 0 ||
      static_cast<uint32_t>(tile_axis) + 1 >= body.facts.num_outer)
    return false;
  const auto across = static_cast<uint32_t>(tile_axis);
  for (ScalarId id = 0; id < body.nest.body.size(); ++id)
    if (IsAcrossLoad(body, across, id)) return true;
  for (uint32_t s = 0; s < body.nest.stores.size(); ++s)
    if (IsAcrossStore(body, across, s)) return true;
  return false;
}

absl::Status WriteCudaTiles(CudaBody& body, int tile_axis,
                            const KernelPasses& passes, SymExpr& grid) {
  return TileWriter(body, tile_axis).Run(passes, grid);
}

}  // namespace kiln

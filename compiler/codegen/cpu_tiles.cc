#include "compiler/codegen/cpu_tiles.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/tile_accesses.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class TileWriter {
 public:
  TileWriter(CpuBody& body, const CpuTiles& variant, const KernelPasses& passes)
      : body_(body),
        nest_(body.nest),
        facts_(body.facts),
        out_(body.out),
        passes_(passes),
        along_(CpuBody::AxisName(body.vector_axis)),
        across_(CpuBody::AxisName(variant.axis)),
        tiled_(AccessesAcross(nest_, facts_, body.buffers,
                              static_cast<uint32_t>(variant.axis), 1, 1)) {}

  absl::Status Run() {
    out_.Open("for (long long y = y0; y < y1; y += K_LANES)");
    out_.Line("const int n = (int)k_least(y1 - y, K_LANES);");
    out_.Open("for (long long v = v0; v < v1; v += K_LANES)");
    out_.Line("const int m = (int)k_least(v1 - v, K_LANES);");
    std::vector<std::string> loaded, stored;
    for (ScalarId id : tiled_.loads) loaded.push_back(LoadAcross(id));
    for (uint32_t s : tiled_.stores) stored.push_back(Square(Dtype(s)));
    RETURN_IF_ERROR(Rows(loaded, stored));
    for (size_t k = 0; k < stored.size(); ++k)
      StoreAcross(tiled_.stores[k], stored[k]);
    out_.Close();
    out_.Close();
    return absl::OkStatus();
  }

 private:
  DType Dtype(uint32_t s) const {
    return body_.buffers[nest_.stores[s].buffer].dtype;
  }

  std::string Square(DType dtype) {
    const std::string name = body_.Fresh("square");
    out_.Line(LaneTypeName(dtype), " ", name, "[K_LANES];");
    return name;
  }

  // Each lane of the vector axis in turn, whose neighbours run along the other
  // axis.
  void OpenLines() {
    out_.Open();
    out_.Line("const long long ", across_, " = y;");
    out_.Open("for (int l = 0; l < m; ++l)");
    out_.Line("const long long ", along_, " = v + l;");
  }
  void CloseLines() {
    out_.Close();
    out_.Close();
  }

  std::string LoadAcross(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    const std::string square = Square(node.dtype);
    OpenLines();
    out_.Line(square, "[l] = k_load_", MemoryEnding(node.dtype), "(",
              body_.BufferName(node.buffer), " + ",
              body_.Index(facts_.load_offset[id]), ", n);");
    CloseLines();
    out_.Line("k_transpose<K_LANES / 2>(", square, ");");
    return square;
  }

  void StoreAcross(uint32_t s, const std::string& square) {
    out_.Line("k_transpose<K_LANES / 2>(", square, ");");
    OpenLines();
    out_.Line("k_store_", MemoryEnding(Dtype(s)), "(",
              body_.BufferName(nest_.stores[s].buffer), " + ",
              body_.Index(facts_.store_offset[s]), ", ", square, "[l], n);");
    CloseLines();
  }

  // A vector of each line of the other axis.
  absl::Status Rows(const std::vector<std::string>& loaded,
                    const std::vector<std::string>& stored) {
    std::vector<ScalarId> nodes;
    for (ScalarId id : passes_.last)
      if (!std::count(tiled_.loads.begin(), tiled_.loads.end(), id))
        nodes.push_back(id);
    std::vector<uint32_t> plain;
    for (uint32_t s : passes_.last_stores)
      if (!std::count(tiled_.stores.begin(), tiled_.stores.end(), s))
        plain.push_back(s);
    out_.Open("for (int r = 0; r < n; ++r)");
    out_.Line("const long long ", across_, " = y + r, ", along_, " = v;");
    for (size_t k = 0; k < loaded.size(); ++k)
      body_.SetText(tiled_.loads[k], absl::StrCat(loaded[k], "[r]"));
    RETURN_IF_ERROR(body_.Nodes(nodes, false));
    RETURN_IF_ERROR(body_.Nodes(nodes, true));
    RETURN_IF_ERROR(body_.Stores(plain, true));
    for (size_t k = 0; k < stored.size(); ++k)
      out_.Line(stored[k], "[r] = ",
                body_.Operand(nest_.stores[tiled_.stores[k]].value, true), ";");
    // What does not move with the vector axis is the same for all its points.
    if (body_.AnyStill(plain)) {
      out_.Open("if (v == 0)");
      RETURN_IF_ERROR(body_.Stores(plain, false));
      out_.Close();
    }
    out_.Close();
    return absl::OkStatus();
  }

  CpuBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  CWriter& out_;
  const KernelPasses& passes_;
  const std::string along_;   // the vector axis
  const std::string across_;  // the other one of the squares
  const TileAccesses tiled_;
};

}  // namespace

absl::Status WriteCpuTiles(CpuBody& body, const CpuTiles& variant,
                           const KernelPasses& passes) {
  return TileWriter(body, variant, passes).Run();
}

}  // namespace kiln

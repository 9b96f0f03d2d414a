#include "compiler/codegen/cpu_codegen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu_body.h"
#include "compiler/codegen/cpu_reductions.h"
#include "compiler/codegen/cpu_scans.h"
#include "compiler/codegen/cpu_tiles.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/vector_masks.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class CpuKernelWriter {
 public:
  CpuKernelWriter(const PlannedKernel& kernel,
                  const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                  const NestFacts& facts)
      : variant_(kernel.variant),
        rows_(std::get_if<CpuRows>(&variant_)),
        scans_(std::get_if<CpuScans>(&variant_)),
        columns_(std::get_if<CpuColumns>(&variant_)),
        tiles_(std::get_if<CpuTiles>(&variant_)),
        points_(std::get_if<CpuPoints>(&variant_)),
        facts_(facts),
        nest_(kernel.nest),
        body_(kernel.nest, facts, buffers, shapes),
        out_(body_.out) {}

  absl::StatusOr<std::string> Run() {
    out_.Open("static void ", kSymbolPlaceholder,
              "_part(void* context, long long begin, long long end)");
    out_.Line("const KilnArguments& a = *(const KilnArguments*)context;");
    RETURN_IF_ERROR(Items());
    out_.Close();
    Entry();
    return out_.Take();
  }

  absl::StatusOr<CpuFunction> Function(absl::string_view name) {
    out_.Open("static void ", name,
              "(const KilnArguments& a, long long begin, long long end)");
    RETURN_IF_ERROR(Items());
    out_.Close();
    return CpuFunction{out_.Take(), ItemsText(), PointsText(), Grain()};
  }

 private:
  // The items from `begin` on.
  absl::Status Items() {
    if (rows_ == nullptr && scans_ == nullptr && columns_ == nullptr &&
        tiles_ == nullptr && points_ == nullptr) {
      return absl::InternalError(absl::StrCat("found variant \"",
                                              VariantName(variant_),
                                              "\", expected one for the CPU"));
    }
    body_.Start();
    if (TakesRows()) {
      body_.vector_axis = facts_.num_axes - 1;
    } else if (facts_.num_outer > 0) {
      body_.vector_axis = facts_.num_outer - 1;
    }
    passes_ = PlanPasses(nest_, facts_, {});
    Parameters();
    SetItems();
    out_.Open("for (long long w = begin; w < end; ++w)");
    RETURN_IF_ERROR(Item());
    out_.Close();
    return absl::OkStatus();
  }

  void Parameters() {
    int buffers = 0, scalars = 0;
    std::vector<bool> written(body_.buffers.size(), false);
    for (const Store& store : nest_.stores) written[store.buffer] = true;
    for (const KernelParam& param : facts_.params) {
      switch (param.kind) {
        case KernelParam::Kind::kBuffer: {
          const absl::string_view type =
              CTypeName(body_.buffers[param.buffer].dtype);
          const char* constant = written[param.buffer] ? "" : "const ";
          out_.Line(constant, type, "* const ", body_.BufferName(param.buffer),
                    " = (", constant, type, "*)a.buffers[", buffers++, "];");
          break;
        }
        case KernelParam::Kind::kScalar:
          out_.Line("const long long s", scalars, " = a.scalars[", scalars,
                    "];");
          ++scalars;
          break;
        case KernelParam::Kind::kSeed:
        case KernelParam::Kind::kSeedSlot:
          out_.Line("const long long seed = a.scalars[", scalars++, "];");
          break;
      }
    }
  }

  // The items that the variant cuts the outer axes into: each a point of all outer
  // axes but the vector axis, of which it takes a block; a tile takes a block of two
  // axes.
  void SetItems() {
    if (TakesRows() || body_.vector_axis == CpuBody::kNoAxis) {
      block_ = 0;
    } else if (columns_ != nullptr) {
      block_ = -columns_->strip;  // in vectors
    } else {
      block_ = tiles_ != nullptr ? tiles_->columns : points_->block;
    }
  }

  // Whether an item is an outer point.
  bool TakesRows() const { return rows_ != nullptr || scans_ != nullptr; }

  bool IsTiled(uint32_t axis) const {
    return tiles_ != nullptr && static_cast<int>(axis) == tiles_->axis;
  }

  // Elements of the vector axis in an item, as text.
  std::string BlockText() const {
    return block_ < 0 ? absl::StrCat("(", -block_, " * K_LANES)")
                      : absl::StrCat(block_);
  }

  // "number of items along this outer axis", as text.
  std::string ItemsAlong(uint32_t axis) const {
    if (block_ != 0 && axis == body_.vector_axis)
      return absl::StrCat("k_ceildiv(", body_.Extent(axis), ", ", BlockText(),
                          ")");
    if (IsTiled(axis))
      return absl::StrCat("k_ceildiv(", body_.Extent(axis), ", ", tiles_->rows,
                          ")");
    return body_.Extent(axis);
  }

  // The item's outer axes from its number `w`, last axis fastest.
  void SplitItem() {
    if (facts_.num_outer == 0) return;
    out_.Line("long long q = w;");
    for (uint32_t axis = facts_.num_outer; axis-- > 0;) {
      const std::string part =
          axis == 0 ? "q" : absl::StrCat("q % ", ItemsAlong(axis));
      const std::string name = CpuBody::AxisName(axis);
      if (block_ != 0 && axis == body_.vector_axis) {
        Range("v", part, BlockText(), body_.Extent(axis));
      } else if (IsTiled(axis)) {
        Range("y", part, absl::StrCat(tiles_->rows), body_.Extent(axis));
      } else {
        out_.Line("const long long ", name, " = ", part, ";");
      }
      if (axis > 0) out_.Line("q /= ", ItemsAlong(axis), ";");
    }
  }

  void Range(const char* name, const std::string& part,
             const std::string& block, const std::string& extent) {
    out_.Line("const long long ", name, "0 = (", part, ") * ", block, ";");
    out_.Line("const long long ", name, "1 = k_least(", name, "0 + ", block,
              ", ", extent, ");");
  }

  absl::Status Item() {
    SplitItem();
    if (rows_ != nullptr) return WriteCpuRows(body_, *rows_);
    if (scans_ != nullptr) return WriteCpuScans(body_);
    if (columns_ != nullptr) return WriteCpuColumns(body_, *columns_);
    if (tiles_ != nullptr) return WriteCpuTiles(body_, *tiles_, passes_);
    return Points();
  }

  absl::Status Points() {
    RETURN_IF_ERROR(body_.Nodes(passes_.last, false));
    if (body_.vector_axis != CpuBody::kNoAxis) {
      body_.OpenLanes("v0", "v1");
      if (points_->interior == 1) RETURN_IF_ERROR(Interior());
      RETURN_IF_ERROR(Lanes(passes_.last));
      out_.Close();
    }
    // What does not move with the vector axis is the same for all its points.
    if (body_.AnyStill(passes_.last_stores) &&
        body_.vector_axis != CpuBody::kNoAxis)
      out_.Open("if (v0 == 0)");
    RETURN_IF_ERROR(body_.Stores(passes_.last_stores, false));
    if (body_.AnyStill(passes_.last_stores) &&
        body_.vector_axis != CpuBody::kNoAxis)
      out_.Close();
    return absl::OkStatus();
  }

  absl::Status Lanes(const std::vector<ScalarId>& nodes) {
    RETURN_IF_ERROR(body_.Nodes(nodes, true));
    return body_.Stores(passes_.last_stores, true);
  }

  // A vector for all of which the range masks hold.
  absl::Status Interior() {
    const std::vector<ScalarId> masks =
        RangeMasks(nest_, facts_, body_.vector_axis);
    const std::string i = CpuBody::AxisName(body_.vector_axis);
    out_.Open("if ((", body_.HoldAt(masks, i), ") && (",
              body_.HoldAt(masks, absl::StrCat(i, " + m - 1")), "))");
    std::vector<ScalarId> nodes;
    for (ScalarId id : passes_.last)
      if (!std::count(masks.begin(), masks.end(), id)) nodes.push_back(id);
    body_.Assume(masks);
    RETURN_IF_ERROR(Lanes(nodes));
    body_.Assume({});
    out_.Line("continue;");
    out_.Close();
    return absl::OkStatus();
  }

  std::string ItemsText() const {
    std::string items = "1";
    for (uint32_t axis = 0; axis < facts_.num_outer; ++axis)
      absl::StrAppend(&items, " * ", ItemsAlong(axis));
    return items;
  }
  std::string PointsText() const {
    std::string points = "1";
    for (uint32_t axis = 0; axis < facts_.num_axes; ++axis)
      absl::StrAppend(&points, " * ", body_.Extent(axis));
    return points;
  }

  // --- The entry: counts items and shares them out.

  int Grain() const {
    return std::visit(
        [](const auto& v) {
          if constexpr (requires { v.grain; }) return v.grain;
          return 1;
        },
        variant_);
  }

  void Entry() {
    out_.Open("extern \"C\" __attribute__((visibility(\"default\"))) void ",
              kSymbolPlaceholder,
              "(void* const* buffers, const long long* scalars, "
              "const KilnCpuRuntime* runtime)");
    out_.Line(
        "KilnArguments a = {buffers, scalars, runtime == 0 ? 0 : "
        "runtime->bad_data};");
    int scalars = 0;
    for (const KernelParam& param : facts_.params)
      if (param.kind == KernelParam::Kind::kScalar) {
        out_.Line("const long long s", scalars, " = scalars[", scalars,
                  "]; (void)s", scalars, ";");
        ++scalars;
      }
    out_.Line("const long long items = ", ItemsText(), ";");
    // Cells that several items may add to belong to one thread.
    if (facts_.has_atomic) {
      out_.Line(kSymbolPlaceholder, "_part(&a, 0, items);");
    } else {
      out_.Line("const long long points = ", PointsText(), ";");
      out_.Line("k_share(runtime, items, points, ", Grain(), ", ",
                kSymbolPlaceholder, "_part, &a);");
    }
    out_.Close();
  }

  const KernelVariant variant_;
  // The one that it is; the others are null.
  const CpuRows* const rows_;
  const CpuScans* const scans_;
  const CpuColumns* const columns_;
  const CpuTiles* const tiles_;
  const CpuPoints* const points_;
  const NestFacts& facts_;
  const LoopNest& nest_;
  CpuBody body_;
  CWriter& out_;
  KernelPasses passes_;
  int64_t block_ =
      0;  // of the vector axis: elements, or minus vectors; 0: none
};

}  // namespace

absl::StatusOr<std::string> WriteCpuKernel(const PlannedKernel& kernel,
                                           const std::vector<Buffer>& buffers,
                                           const ShapeEnv& shapes,
                                           NestFacts facts) {
  facts.index32 = false;
  return CpuKernelWriter(kernel, buffers, shapes, facts).Run();
}

absl::StatusOr<CpuFunction> WriteCpuFunction(const PlannedKernel& kernel,
                                             const std::vector<Buffer>& buffers,
                                             const ShapeEnv& shapes,
                                             NestFacts facts,
                                             absl::string_view name) {
  facts.index32 = false;
  return CpuKernelWriter(kernel, buffers, shapes, facts).Function(name);
}

}  // namespace kiln

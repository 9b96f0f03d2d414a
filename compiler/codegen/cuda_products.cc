#include "compiler/codegen/cuda_products.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class ProductsWriter {
 public:
  ProductsWriter(CudaBody& body, const CudaProducts& variant,
                 const MatrixProduct& product)
      : v_(variant),
        product_(product),
        body_(body),
        facts_(body.facts),
        out_(body.out),
        rows_(product.rows.axis),
        columns_(product.columns.axis) {}

  absl::StatusOr<CudaGrid> Run(const KernelPasses& passes) {
    CudaGrid grid;
    grid.blocks = Place();
    Options();
    out_.Line("float sums[", v_.tiles, "][", 4 * v_.strips, "][4];");
    out_.Line("k_clear(sums);");
    out_.Line("k_product<product>(sums, ", Arguments(product_.rows, "row"),
              ", ", Arguments(product_.columns, "column"), ");");
    OpenGroup();
    body_.SetText(product_.sum,
                  "sums[r / 2][4 * s + e / 2][r % 2 * 2 + e % 2]");
    const auto nothing = [](CudaBody::Place) { return absl::OkStatus(); };
    RETURN_IF_ERROR(
        body_.WriteGroup({AfterSums(passes), passes.last_stores, nothing, ""}));
    CloseGroup();
    return grid;
  }

 private:
  int64_t RowsOfBlock() const {
    return int64_t{v_.down} * v_.tiles * kTileRows;
  }
  int64_t ColumnsOfBlock() const {
    return int64_t{v_.across} * v_.strips * kStripColumns;
  }

  // Declares the axes but for those of rows and columns, and of these the first
  // point of the thread's. Returns the number of blocks; neighbours share rows.
  SymExpr Place() {
    const std::string type = body_.index_type();
    out_.Line("const int lane = (int)threadIdx.x % 32;");
    out_.Line("const int warp = (int)threadIdx.x / 32;");
    out_.Line("unsigned q = blockIdx.x;");
    SymExpr blocks = 1;
    for (uint32_t axis = facts_.num_outer; axis-- > 0;) {
      const int64_t edge = axis == rows_      ? RowsOfBlock()
                           : axis == columns_ ? ColumnsOfBlock()
                                              : 1;
      const SymExpr count = CeilDiv(facts_.extents[axis], edge);
      blocks = blocks * count;
      const std::string n = absl::StrCat("(unsigned)", body_.Index(count));
      const std::string part = absl::StrCat(
          "(", type, ")", axis == 0 ? "q" : absl::StrCat("(q % ", n, ")"));
      if (axis == rows_) {
        out_.Line("const ", type, " row = ", part, " * ", edge, " + warp / ",
                  v_.across, " * ", v_.tiles * kTileRows, " + lane / 4 * ",
                  2 * v_.tiles, ";");
      } else if (axis == columns_) {
        out_.Line("const ", type, " column = ", part, " * ", edge, " + warp % ",
                  v_.across, " * ", v_.strips * kStripColumns, ";");
      } else {
        out_.Line("const ", type, " ", CudaBody::AxisName(axis), " = ", part,
                  ";");
      }
      if (axis > 0) out_.Line("q /= ", n, ";");
    }
    return blocks;
  }

  void Options() {
    const bool bf16 =
        body_.nest.body[product_.rows.load].dtype == DType::kBFloat16;
    const MatrixProduct::Factor &a = product_.rows, &b = product_.columns;
    out_.Open("struct product");
    out_.Line("enum { kBf16 = ", bf16, ", kTiles = ", v_.tiles,
              ", kStrips = ", v_.strips, ", kDepth = ", product_.depth, " };");
    out_.Line("enum { kRowsAlong = ", a.along_depth,
              ", kRowsWide = ", int{a.MovesWide(2 * v_.tiles)},
              ", kColumnsAlong = ", b.along_depth,
              ", kColumnsWide = ", int{b.MovesWide(kThreadColumns)}, " };");
    out_.Close(";");
  }

  // A factor for k_product: its address at the thread's first point, its strides, and
  // how many points there are from there on.
  std::string Arguments(const MatrixProduct::Factor& factor,
                        absl::string_view first) const {
    const ScalarNode& load = body_.nest.body[factor.load];
    return absl::StrCat(
        body_.BufferName(load.buffer), " + ", body_.Index(factor.first), " + ",
        first, " * ", body_.Index(factor.stride), ", ",
        body_.Index(factor.stride), ", ", body_.Index(factor.depth_stride),
        ", (int)(", body_.Index(facts_.extents[factor.axis]), " - ", first,
        ")");
  }

  // Groups of eight columns, which a thread has of each row and strip.
  void OpenGroup() {
    const SymExpr& columns = facts_.extents[columns_];
    const std::string type = body_.index_type();
    const std::string row = CudaBody::AxisName(rows_);
    const std::string column = CudaBody::AxisName(columns_);
    body_.SetVectors(
        {columns_, kThreadColumns, 0, !IsMultiple(columns, kThreadColumns)});
    out_.Line("#pragma unroll");
    out_.Open("for (int r = 0; r < ", 2 * v_.tiles, "; ++r)");
    out_.Line("#pragma unroll");
    out_.Open("for (int s = 0; s < ", v_.strips, "; ++s)");
    out_.Line("const ", type, " ", row, " = row + r;");
    out_.Line("const ", type, " ", column, " = column + s * ", kStripColumns,
              " + lane % 4 * ", kThreadColumns, ";");
    std::string inside;
    const auto ask = [&](uint32_t axis, const std::string& name, int64_t edge) {
      if (IsMultiple(facts_.extents[axis], edge)) return;
      absl::StrAppend(&inside, inside.empty() ? "" : " && ", name, " < ",
                      body_.Index(facts_.extents[axis]));
    };
    ask(rows_, row, RowsOfBlock());
    ask(columns_, column, ColumnsOfBlock());
    if (inside.empty()) {
      out_.Open();
    } else {
      out_.Open("if (", inside, ")");
    }
    if (!body_.vectors.cut) return;
    const std::string extent = body_.Index(columns);
    out_.Line("const int lo = 0;");
    out_.Line("const int hi = ", extent, " - ", column, " >= ", kThreadColumns,
              " ? ", kThreadColumns, " : (int)(", extent, " - ", column, ");");
  }
  void CloseGroup() {
    for (int k = 0; k < 3; ++k) out_.Close();
  }

  // What is computed of each sum, and what a sum alone would need before it.
  static std::vector<ScalarId> AfterSums(const KernelPasses& passes) {
    std::vector<ScalarId> nodes = passes.last;
    for (const KernelPass& pass : passes.passes)
      nodes.insert(nodes.end(), pass.before.begin(), pass.before.end());
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  }

  const CudaProducts& v_;
  const MatrixProduct& product_;
  CudaBody& body_;
  const NestFacts& facts_;
  CWriter& out_;
  const uint32_t rows_, columns_;  // axes
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaProducts(CudaBody& body,
                                           const CudaProducts& variant,
                                           const MatrixProduct& product,
                                           const KernelPasses& passes) {
  return ProductsWriter(body, variant, product).Run(passes);
}

}  // namespace kiln

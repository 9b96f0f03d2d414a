#include "compiler/schedule/window_loops.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/contraction_loops.h"

namespace kiln {
namespace {

// Axes of a convolution (contraction.h).
constexpr uint32_t kImages = 0, kGroups = 1, kOutputs = 2, kInputs = 3;
constexpr uint32_t kPlaces = 4;

// The most weights of a row whose sums a nest keeps at once.
constexpr int64_t kMaxRow = 16;
// Windows of fewer rows, or of shorter rows, are written out.
constexpr int64_t kLeastRows = 3;

// The index of a cell along one dimension, and on which sides it may be out of bounds.
struct Cell {
  SymExpr at;
  bool before = false;  // it may be negative
  bool beyond = false;  // it may be too large
};

// One dimension of the window.
struct Step {
  int64_t cells = 1, stride = 1, dilation = 1, padding = 0;
};

// A position along a dimension of the window, in [first, last].
struct Count {
  SymExpr at;
  int64_t first = 0, last = 0;
};

class WindowWriter {
 public:
  WindowWriter(const Contraction& c, const std::vector<Buffer>& buffers,
               const ShapeEnv& shapes)
      : c_(c), buffers_(buffers), shapes_(shapes) {}

  std::optional<WindowLoops> Write() {
    if (!ReadShape() || !IsPlain() || !ReadPlaces()) return std::nullopt;
    if (c_.written != Contraction::kB) MoveChannelsTogether();
    switch (c_.written) {
      case Contraction::kA:
        if (!WriteImage()) return std::nullopt;
        break;
      case Contraction::kB:
        if (steps_.back().cells > kMaxRow) return std::nullopt;
        WriteWeights();
        break;
      case Contraction::kC:
        WriteResult();
        break;
    }
    return std::move(loops_);
  }

 private:
  bool ReadShape() {
    if (c_.form != Contraction::Form::kConvolution ||
        !c_.extents[kInputs].Is(1) || c_.extents[kGroups].Is(1) ||
        !c_.extents[kOutputs].is_constant()) {
      return false;
    }
    outputs_ = c_.extents[kOutputs].constant();
    const auto spatial = static_cast<uint32_t>(c_.spatial());
    int64_t cells = outputs_;
    for (uint32_t d = 0; d < spatial; ++d) {
      const SymExpr& window = c_.extents[kPlaces + spatial + d];
      const auto at = AsLinear(c_.operands[Contraction::kA].index[2 + d]);
      if (!window.is_constant() || !at.has_value()) return false;
      const SymExpr stride = at->CoefficientOf(kPlaces + d),
                    dilation = at->CoefficientOf(kPlaces + spatial + d);
      if (!stride.is_constant() || !dilation.is_constant() ||
          !at->offset.is_constant()) {
        return false;
      }
      steps_.push_back({window.constant(), stride.constant(),
                        dilation.constant(), -at->offset.constant()});
      cells *= window.constant();
    }
    return cells > 0 && cells <= kMostUnrolledCells;
  }

  // Whether the body is just the sum.
  bool IsPlain() {
    sum_ = SumOf(c_);
    const ScalarNode& value = c_.body[c_.value];
    return HasPlainFactors(c_) &&
           (c_.value == sum_ ||
            (value.op == ScalarOp::kCast && value.args[0] == sum_));
  }

  // Sets places_: for each operand, the index in its buffer of the element at Axis(d)
  // of each dimension d of its view.
  bool ReadPlaces() {
    for (size_t k = 0; k < c_.operands.size(); ++k) {
      const View& view = c_.operands[k].view;
      SymExpr address = view.offset;
      for (uint32_t d = 0; d < view.sizes.size(); ++d)
        if (!view.sizes[d].Is(1)) address += SymExpr::Axis(d) * view.strides[d];
      std::optional<DimVector> place =
          IndexAt(address, buffers_[view.buffer], view.sizes, shapes_);
      if (!place.has_value()) return false;
      places_[k] = *std::move(place);
      buffer_[k] = view.buffer;
    }
    return true;
  }

  // If channels are contiguous in what is written, copies the weights to make theirs
  // contiguous too.
  void MoveChannelsTogether() {
    const View& written = c_.result().view;
    const View& weights = c_.operands[Contraction::kB].view;
    if (!written.strides[1].Is(1) || written.sizes[1].Is(1) ||
        weights.strides[0].Is(1)) {
      return;
    }
    Buffer buffer;
    buffer.name = absl::StrCat("buf", buffers_.size());
    buffer.dtype = weights.dtype;
    buffer.sizes = weights.sizes;
    buffer.strides.assign(weights.sizes.size(), SymExpr(1));
    SymExpr stride = weights.sizes[0];
    for (size_t d = weights.sizes.size(); d-- > 1;) {
      buffer.strides[d] = stride;
      stride *= weights.sizes[d];
    }
    Open();
    DimVector at;
    for (const SymExpr& size : weights.sizes) at.push_back(AddAxis(size));
    const ScalarId value =
        body_.Load(weights.buffer, weights.dtype, PlaceOf(Contraction::kB, at));
    places_[Contraction::kB] = OwnAxesOf(buffer.sizes);
    buffer_[Contraction::kB] = static_cast<BufferId>(buffers_.size());
    loops_.buffers.push_back(std::move(buffer));
    StoreAt(Contraction::kB, at, value);
    Close();
  }

  static DimVector OwnAxesOf(const DimVector& sizes) {
    DimVector axes;
    for (uint32_t d = 0; d < sizes.size(); ++d)
      axes.push_back(sizes[d].Is(1) ? SymExpr(0) : SymExpr::Axis(d));
    return axes;
  }

  // --- The current nest.

  void Open() {
    nest_ = LoopNest();
    nest_.origins = c_.origins;
    nest_.client_nodes = c_.client_nodes;
  }
  SymExpr AddAxis(const SymExpr& extent, bool reduction = false) {
    if (extent.Is(1)) return 0;
    nest_.axes.push_back({extent, reduction});
    return SymExpr::Axis(static_cast<uint32_t>(nest_.axes.size() - 1));
  }
  void StoreAt(Contraction::Place place, const DimVector& at, ScalarId value) {
    nest_.stores.push_back({buffer_[place], PlaceOf(place, at), value});
  }
  void Close() {
    nest_.body = body_.Take();
    DropDeadNodes(nest_);
    loops_.nests.push_back(SplitAtDivisions(std::move(nest_), shapes_));
  }

  DimVector PlaceOf(Contraction::Place place, const DimVector& at) const {
    DimVector index;
    for (const SymExpr& e : places_[place]) {
      index.push_back(e.Substitute([&](Var v) {
        return v.kind == Var::Kind::kAxis ? at[v.index] : SymExpr::Of(v);
      }));
    }
    return index;
  }

  DType SumType() const { return c_.body[sum_].dtype; }

  ScalarId Load(Contraction::Place place, const DimVector& at) {
    return body_.Cast(SumType(),
                      body_.Load(buffer_[place], c_.operands[place].view.dtype,
                                 PlaceOf(place, at)));
  }

  // Loads the element at `cells` of the spatial dimensions; 0 if it is out of bounds.
  ScalarId LoadCells(Contraction::Place place, const SymExpr& image,
                     const SymExpr& channel, const std::vector<Cell>& cells,
                     ScalarId mask) {
    const View& view = c_.operands[place].view;
    DimVector at = {image, channel};
    const auto require = [&](ScalarOp op, const SymExpr& index,
                             const SymExpr& bound) {
      const ScalarId holds =
          body_.Op(op, body_.Index(index), body_.Index(bound));
      mask = mask == Store::kNoMask ? holds
                                    : body_.Op(ScalarOp::kAnd, mask, holds);
    };
    for (size_t d = 0; d < cells.size(); ++d) {
      at.push_back(cells[d].at);
      if (cells[d].before) require(ScalarOp::kGe, cells[d].at, 0);
      if (cells[d].beyond)
        require(ScalarOp::kLt, cells[d].at, view.sizes[2 + d]);
    }
    const DimVector index = PlaceOf(place, at);
    return body_.Cast(
        SumType(),
        mask == Store::kNoMask
            ? body_.Load(buffer_[place], view.dtype, index)
            : body_.MaskedLoad(buffer_[place], view.dtype, index, mask));
  }

  void Accumulate(std::optional<ScalarId>& sum, ScalarId a, ScalarId b) {
    if (!sum.has_value()) {
      sum = body_.Op(ScalarOp::kMul, a, b);
      return;
    }
    const ScalarId args[] = {a, b, *sum};
    sum = body_.Op(ScalarOp::kFma, args);
  }

  ScalarId Stored(ScalarId sum) {
    return body_.Cast(c_.result().view.dtype, sum);
  }

  // Calls visit(i) for each point of a box of `sizes`, in row-major order. If `row` is
  // given, rows are that axis, and only the points of one row are visited.
  template <typename Visit>
  static void ForEach(std::vector<int64_t> sizes,
                      const std::optional<SymExpr>& row, Visit visit) {
    const int64_t rows = sizes[0];
    if (row.has_value()) sizes[0] = 1;
    std::vector<int64_t> at(sizes.size(), 0);
    for (;;) {
      std::vector<Count> counts;
      for (const int64_t i : at) counts.push_back({i, i, i});
      if (row.has_value()) counts[0] = {*row, 0, rows - 1};
      visit(counts);
      size_t d = sizes.size();
      while (d > 0 && ++at[d - 1] == sizes[d - 1]) at[--d] = 0;
      if (d == 0) return;
    }
  }

  // Adds the axis of the window's rows if they are a reduction. If channels are
  // contiguous, a thread has registers for many cells of one row, but not of all rows.
  std::optional<SymExpr> RowAxis(const std::vector<int64_t>& sizes) {
    const View& written = c_.result().view;
    const bool channels_last =
        written.strides[1].Is(1) && !written.sizes[1].Is(1);
    if (!channels_last || sizes.size() < 2 || sizes[0] < kLeastRows ||
        sizes.back() < kLeastRows) {
      return std::nullopt;
    }
    return AddAxis(SymExpr(sizes[0]), /*reduction=*/true);
  }

  // The sum over all rows, given the sum over each.
  ScalarId OverRows(const std::optional<SymExpr>& row, ScalarId sum) {
    if (!row.has_value()) return sum;
    return body_.Reduce(ReduceOp::kSum, SumType(), {&sum, 1});
  }

  // --- Result, image, weights.

  // The cell of the image that position `place` of the result reads at cell `w` of its
  // window. The result has `places` positions.
  Cell CellOf(size_t d, const SymExpr& place, const SymExpr& places,
              const Count& w) const {
    const Step& s = steps_[d];
    const SymExpr& size = c_.operands[Contraction::kA].view.sizes[2 + d];
    const SymExpr last = (places - 1) * s.stride + w.last * s.dilation;
    return {place * s.stride + w.at * s.dilation - s.padding,
            w.first * s.dilation < s.padding,
            !shapes_.KnownLt(last - s.padding, size)};
  }

  std::vector<int64_t> WindowSizes() const {
    std::vector<int64_t> sizes;
    for (const Step& s : steps_) sizes.push_back(s.cells);
    return sizes;
  }

  void WriteResult() {
    Open();
    const SymExpr image = AddAxis(c_.extents[kImages]),
                  group = AddAxis(c_.extents[kGroups]),
                  output = AddAxis(c_.extents[kOutputs]);
    const SymExpr channel = group * outputs_ + output;
    DimVector to = {image, channel};
    for (size_t d = 0; d < steps_.size(); ++d)
      to.push_back(AddAxis(c_.extents[kPlaces + d]));
    const std::vector<int64_t> sizes = WindowSizes();
    const std::optional<SymExpr> row = RowAxis(sizes);
    std::optional<ScalarId> sum;
    ForEach(sizes, row, [&](const std::vector<Count>& w) {
      std::vector<Cell> cells;
      DimVector at = {channel, 0};
      for (size_t d = 0; d < w.size(); ++d) {
        cells.push_back(CellOf(d, to[2 + d], c_.extents[kPlaces + d], w[d]));
        at.push_back(w[d].at);
      }
      Accumulate(
          sum, LoadCells(Contraction::kA, image, group, cells, Store::kNoMask),
          Load(Contraction::kB, at));
    });
    StoreAt(Contraction::kC, to, Stored(OverRows(row, *sum)));
    Close();
  }

  // Along dimension d: the i-th position of the result whose window contains the image's
  // cell `at`. Sets `window` to the cell of that window.
  Cell PlaceReaching(size_t d, const SymExpr& at, const Count& i,
                     SymExpr& window) const {
    const Step& s = steps_[d];
    const View& result = c_.operands[Contraction::kC].view;
    const SymExpr& size = c_.operands[Contraction::kA].view.sizes[2 + d];
    SymExpr place;
    if (s.stride == 1) {
      window = i.at;
      place = at + s.padding - i.at * s.dilation;
    } else {
      window = Mod(at + s.padding, s.stride) + i.at * s.stride;
      place = FloorDiv(at + s.padding, s.stride) - i.at;
    }
    // The image's first cell decides whether positions may be negative, its last cell
    // whether they may be too large.
    const int64_t step = s.stride == 1 ? s.dilation : s.stride;
    const SymExpr last =
        FloorDiv(size - 1 + s.padding - i.first * step, s.stride);
    return {place, s.padding < i.last * step,
            !shapes_.KnownLt(last, result.sizes[2 + d])};
  }

  bool WriteImage() {
    std::vector<int64_t> sizes;
    for (const Step& s : steps_) {
      if (s.stride > 1 && s.dilation > 1) return false;
      sizes.push_back(s.stride == 1 ? s.cells
                                    : (s.cells + s.stride - 1) / s.stride);
    }
    Open();
    const View& written = c_.operands[Contraction::kA].view;
    const SymExpr image = AddAxis(c_.extents[kImages]),
                  group = AddAxis(c_.extents[kGroups]);
    DimVector to = {image, group};
    for (size_t d = 0; d < steps_.size(); ++d)
      to.push_back(AddAxis(written.sizes[2 + d]));
    const std::optional<SymExpr> row = RowAxis(sizes);
    std::optional<ScalarId> sum;
    for (int64_t output = 0; output < outputs_; ++output) {
      const SymExpr channel = group * outputs_ + output;
      ForEach(sizes, row, [&](const std::vector<Count>& i) {
        AddPlace(image, channel, to, i, sum);
      });
    }
    StoreAt(Contraction::kA, to, Stored(OverRows(row, *sum)));
    Close();
    return true;
  }

  // Adds an element of the result, multiplied by the weight that connects it to the
  // image's element `to`.
  void AddPlace(const SymExpr& image, const SymExpr& channel,
                const DimVector& to, const std::vector<Count>& i,
                std::optional<ScalarId>& sum) {
    std::vector<Cell> cells;
    DimVector at = {channel, 0};
    ScalarId mask = Store::kNoMask;
    for (size_t d = 0; d < steps_.size(); ++d) {
      SymExpr window;
      cells.push_back(PlaceReaching(d, to[2 + d], i[d], window));
      at.push_back(window);
      // With a stride, the last position may lie outside of the window.
      if ((i[d].last + 1) * steps_[d].stride > steps_[d].cells &&
          steps_[d].stride > 1) {
        const ScalarId holds = body_.Op(ScalarOp::kLt, body_.Index(window),
                                        body_.Index(SymExpr(steps_[d].cells)));
        mask = mask == Store::kNoMask ? holds
                                      : body_.Op(ScalarOp::kAnd, mask, holds);
      }
    }
    const DType dtype = c_.operands[Contraction::kB].view.dtype;
    const ScalarId weight =
        mask == Store::kNoMask
            ? Load(Contraction::kB, at)
            : body_.Cast(SumType(),
                         body_.MaskedLoad(buffer_[Contraction::kB], dtype,
                                          PlaceOf(Contraction::kB, at), mask));
    Accumulate(sum, LoadCells(Contraction::kC, image, channel, cells, mask),
               weight);
  }

  void WriteWeights() {
    Open();
    const SymExpr group = AddAxis(c_.extents[kGroups]),
                  output = AddAxis(c_.extents[kOutputs]);
    const SymExpr channel = group * outputs_ + output;
    DimVector to = {channel, 0};
    const size_t last = steps_.size() - 1;
    for (size_t d = 0; d < last; ++d)
      to.push_back(AddAxis(SymExpr(steps_[d].cells)));
    to.push_back(0);
    const SymExpr image = AddAxis(c_.extents[kImages], /*reduction=*/true);
    DimVector place = {image, channel};
    for (size_t d = 0; d < steps_.size(); ++d)
      place.push_back(AddAxis(c_.extents[kPlaces + d], /*reduction=*/true));
    const bool reduces = HasReduction(nest_);
    const ScalarId result = Load(Contraction::kC, place);
    for (int64_t w = 0; w < steps_[last].cells; ++w) {
      to.back() = w;
      std::vector<Cell> cells;
      for (size_t d = 0; d < steps_.size(); ++d) {
        const Count at = d < last ? Count{to[2 + d], 0, steps_[d].cells - 1}
                                  : Count{w, w, w};
        cells.push_back(CellOf(d, place[2 + d], c_.extents[kPlaces + d], at));
      }
      ScalarId value = body_.Op(
          ScalarOp::kMul,
          LoadCells(Contraction::kA, image, group, cells, Store::kNoMask),
          result);
      if (reduces) value = body_.Reduce(ReduceOp::kSum, SumType(), {&value, 1});
      StoreAt(Contraction::kB, to, Stored(value));
    }
    Close();
  }

  const Contraction& c_;
  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  int64_t outputs_ = 1;  // channels of the result per channel of the image
  std::vector<Step> steps_;
  ScalarId sum_ = 0;
  std::array<DimVector, 3> places_;
  std::array<BufferId, 3> buffer_;
  LoopNest nest_;
  BodyBuilder body_;
  WindowLoops loops_;
};

}  // namespace

std::optional<WindowLoops> WindowLoopsOf(const Contraction& c,
                                         const std::vector<Buffer>& buffers,
                                         const ShapeEnv& shapes) {
  return WindowWriter(c, buffers, shapes).Write();
}

double WindowProducts(const Contraction& c, const ShapeEnv& shapes) {
  double products = 1;
  for (const SymExpr& extent : c.extents)
    products *= static_cast<double>(shapes.Hint(extent));
  return products;
}

}  // namespace kiln

// Steps of their own: products and convolutions as contractions, orders of rows.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/loop/image_products.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// A library takes a matrix when one of its last two strides is 1 and the other
// keeps its rows, or columns, apart.
bool IsMatrix(const View& view) {
  const size_t row = view.sizes.size() - 2, column = row + 1;
  if (view.sizes[row].Is(1) || view.sizes[column].Is(1)) return true;
  const auto lies_along = [&view](size_t inner, size_t outer) {
    const SymExpr& size = view.sizes[inner];
    const SymExpr& stride = view.strides[outer];
    const bool overlaps =
        stride.is_constant() &&
        (size.is_constant() ? stride.constant() < size.constant() : stride.Is(0));
    return view.strides[inner].Is(1) && !overlaps;
  };
  return lies_along(column, row) || lies_along(row, column);
}

View MatrixOperand(NodeLowering& n, size_t arg) {
  const std::optional<View> view = n.g.AsView(n.tensor(arg));
  if (view.has_value() && IsMatrix(*view)) return *view;
  return n.g.CopyOf(n.tensor(arg), "copy");
}

View AnyOperand(NodeLowering& n, size_t arg) {
  const std::optional<View> view = n.g.AsView(n.tensor(arg));
  if (view.has_value()) return *view;
  return n.g.CopyOf(n.tensor(arg), "copy");
}

// A tensor of a convolution must be contiguous or channels-last; on CUDA the latter
// where the convolution is, while oneDNN takes each tensor as it comes.
View ImageOperand(NodeLowering& n, size_t arg) {
  const ValueId v = n.tensor(arg);
  const bool channels_last =
      n.g.graph.device == DeviceType::kCuda &&
      std::any_of(
          n.node.results.begin(), n.node.results.end(),
          [&](ValueId result) { return n.g.channels_last[result.index]; });
  const std::optional<View> view = n.g.AsView(v);
  if (view.has_value()) {
    const auto fits = [&](const DimVector& due) {
      for (size_t d = 0; d < due.size(); ++d) {
        if (!view->sizes[d].Is(1) && !(view->strides[d] == due[d])) {
          return false;
        }
      }
      return true;
    };
    if (!channels_last && fits(ContiguousStrides(view->sizes))) return *view;
    if (view->sizes.size() >= 4 && fits(ChannelsLastStrides(view->sizes))) {
      return *view;
    }
  }
  if (!channels_last) return n.g.CopyOf(v, "copy");
  const auto [copy, is_new] = n.g.channels_last_copies.try_emplace(v.index);
  if (is_new)
    copy->second =
        n.g.CopyOf(v, "copy", ChannelsLastStrides(n.g.meta(v).sizes));
  return copy->second;
}

View ResultView(NodeLowering& n, size_t r) {
  n.g.PlaceResult(n.result(r));
  return *n.g.AsView(n.result(r));
}

DimVector AxesFrom(uint32_t first, size_t count) {
  DimVector axes;
  for (uint32_t k = 0; k < count; ++k) axes.push_back(SymExpr::Axis(first + k));
  return axes;
}

// One contraction of a node in the making.
class ContractionWriter {
 public:
  ContractionWriter(NodeLowering& n, Contraction contraction)
      : n_(n), writer_(n.Write()), c_(std::move(contraction)) {
    const DType dtype = c_.result().view.dtype;
    ScalarNode sum{ScalarOp::kContract, ComputeType(dtype)};
    for (int k = 0; k < 2; ++k) {
      ScalarNode factor{ScalarOp::kFactor, dtype};
      factor.number.i = k;
      sum.args.push_back(body().Cast(sum.dtype, body().Add(std::move(factor))));
    }
    value_ = body().Add(std::move(sum));
  }

  // The sum, scaled, and what is added to it.
  void Scale(size_t arg) {
    if (n_.Number(arg, 1) == 1) return;
    value_ = body().Op(ScalarOp::kMul, value_,
                       n_.Constant(body(), body().dtype(value_), arg, 1));
  }
  void AddScaled(ScalarId more, size_t arg) {
    if (n_.Number(arg, 1) != 1) {
      more = body().Op(ScalarOp::kMul, more,
                       n_.Constant(body(), body().dtype(value_), arg, 1));
    }
    Add(more);
  }
  void Add(ScalarId more) { value_ = body().Op(ScalarOp::kAdd, more, value_); }

  // Elements of an argument that is broadcast to `at`, in the sum's type.
  ScalarId Load(size_t arg, const DimVector& at) {
    const ValueId v = n_.tensor(arg);
    const DType type = body().dtype(value_);
    if (n_.g.AsView(v).has_value()) return writer_.LoadBroadcast(v, at, type);
    const View copy = n_.g.CopyOf(v, "copy");
    DimVector index;
    const size_t skip = at.size() - copy.sizes.size();
    for (size_t d = 0; d < copy.sizes.size(); ++d)
      index.push_back(copy.sizes[d].Is(1) ? SymExpr(0) : at[skip + d]);
    return body().Cast(type, body().Load(copy.buffer, copy.dtype, index));
  }

  // `whole_sums`: no part of a half type's sum is rounded, whatever the options
  // say of products.
  absl::Status Finish(bool allow_tf32, bool whole_sums = false) {
    const DType dtype = c_.result().view.dtype;
    c_.value = body().Cast(dtype, value_);
    c_.body = body().Take();
    c_.origins = n_.g.OriginsOf(n_.origin);
    c_.client_nodes.assign(n_.node.client_nodes.begin(),
                           n_.node.client_nodes.end());
    // Only what is allowed and matters for the dtype is said, so that plans of
    // other dtypes do not depend on it.
    const ArtifactOptions& options = n_.g.options;
    c_.allow_tf32 = dtype == DType::kFloat32 && allow_tf32;
    c_.allow_reduced_sums =
        !whole_sums &&
        ((dtype == DType::kFloat16 && options.allow_fp16_reduced_precision) ||
         (dtype == DType::kBFloat16 && options.allow_bf16_reduced_precision));
    // Products are so whoever computes them, and convolutions on the CPU.
    c_.deterministic =
        c_.form == Contraction::Form::kConvolution &&
        n_.g.graph.device == DeviceType::kCuda &&
        (options.deterministic || options.convolution_deterministic);
    n_.g.program.steps.push_back(std::move(c_));
    return absl::OkStatus();
  }

 private:
  BodyBuilder& body() { return writer_.body; }

  NodeLowering& n_;
  NestWriter writer_;  // for its loads; it stores nothing
  Contraction c_;
  ScalarId value_ = 0;
};

// a @ b as operands `first` and the next of the node.
Contraction ProductOf(NodeLowering& n, size_t first) {
  Contraction c;
  View a = MatrixOperand(n, first), b = MatrixOperand(n, first + 1);
  View result = ResultView(n, 0);
  const uint32_t batch = a.sizes.size() == 3 ? 1 : 0;
  const DimVector batch_axis = AxesFrom(0, batch);
  const SymExpr row = SymExpr::Axis(batch), column = SymExpr::Axis(batch + 1),
                sum = SymExpr::Axis(batch + 2);
  c.extents = a.sizes;
  c.extents.insert(c.extents.end() - 1, b.sizes.back());
  const auto at = [&](const SymExpr& x, const SymExpr& y) {
    DimVector index = batch_axis;
    index.push_back(x);
    index.push_back(y);
    return index;
  };
  c.operands[Contraction::kA] = {std::move(a), at(row, sum)};
  c.operands[Contraction::kB] = {std::move(b), at(sum, column)};
  c.operands[Contraction::kC] = {std::move(result), at(row, column)};
  return c;
}

absl::Status Product(NodeLowering& n) {
  return ContractionWriter(n, ProductOf(n, 0)).Finish(n.g.options.allow_tf32);
}

// addmm(self, mat1, mat2, *, beta, alpha) and baddbmm. With beta 0 the bias is
// not read, so that its NaNs do not matter.
absl::Status ProductPlus(NodeLowering& n) {
  Contraction product = ProductOf(n, 1);
  const DimVector at = product.result().index;
  ContractionWriter writer(n, std::move(product));
  writer.Scale(4);
  if (n.Number(3, 1) != 0) writer.AddScaled(writer.Load(0, at), 3);
  return writer.Finish(n.g.options.allow_tf32);
}

std::vector<SymExpr> Spread(const NodeLowering& n, size_t arg, size_t count) {
  std::vector<SymExpr> numbers;
  for (const int64_t number : n.Ints(arg)) numbers.push_back(number);
  while (numbers.size() < count) numbers.push_back(numbers.back());
  return numbers;
}

// A convolution without views: axes, and where a point of them lies. Arguments
// from `first` on: stride, padding, dilation, transposed, output_padding, groups.
Contraction ConvolutionOver(const NodeLowering& n, size_t first,
                            const DimVector& image, const DimVector& weights,
                            const DimVector& result) {
  Contraction c;
  c.form = Contraction::Form::kConvolution;
  const size_t spatial = weights.size() - 2;
  const SymExpr groups = n.Int(first + 5);
  const SymExpr outputs = FloorDiv(weights[0], groups);
  c.extents = {image[0], groups, outputs, weights[1]};
  c.extents.insert(c.extents.end(), result.begin() + 2, result.end());
  c.extents.insert(c.extents.end(), weights.begin() + 2, weights.end());
  const DimVector axes = AxesFrom(0, c.extents.size());
  const std::vector<SymExpr> stride = Spread(n, first, spatial),
                             padding = Spread(n, first + 1, spatial),
                             dilation = Spread(n, first + 2, spatial);
  const SymExpr output = axes[1] * outputs + axes[2];
  DimVector& a = c.operands[Contraction::kA].index;
  DimVector& b = c.operands[Contraction::kB].index;
  DimVector& y = c.operands[Contraction::kC].index;
  a = {axes[0], axes[1] * weights[1] + axes[3]};
  b = {output, axes[3]};
  y = {axes[0], output};
  for (size_t d = 0; d < spatial; ++d) {
    const SymExpr &place = axes[4 + d], &window = axes[4 + spatial + d];
    a.push_back(place * stride[d] + window * dilation[d] - padding[d]);
    b.push_back(window);
    y.push_back(place);
  }
  return c;
}

// Images whose pixels lie side by side as matrices: [b, channels, pixels].
std::optional<View> AsMatrices(const View& images) {
  const DimVector dense = ContiguousStrides(images.sizes);
  SymExpr pixels = 1;
  for (size_t d = 2; d < images.sizes.size(); ++d) {
    pixels *= images.sizes[d];
    if (!images.sizes[d].Is(1) && !(images.strides[d] == dense[d]))
      return std::nullopt;
  }
  View view = images;
  view.sizes = {images.sizes[0], images.sizes[1], pixels};
  view.strides = {images.strides[0], images.strides[1], SymExpr(1)};
  // An image of one channel has the stride of none.
  if (images.sizes[1].Is(1)) view.strides[1] = pixels;
  return view;
}

// An image product (image_products.h): the result's images, or, of the weights
// transposed, the gradient's. None where an array does not lie channels-first.
std::optional<Contraction> ImageProduct(const View& images, const View& weights,
                                        bool transposed, const View& result) {
  std::optional<View> b = AsMatrices(images), c = AsMatrices(result);
  if (!b.has_value() || !c.has_value()) return std::nullopt;
  View a = weights;  // one for all images
  const size_t row = transposed ? 1 : 0, column = transposed ? 0 : 1;
  a.sizes = {images.sizes[0], weights.sizes[row], weights.sizes[column]};
  a.strides = {SymExpr(0), weights.strides[row], weights.strides[column]};
  Contraction product;
  product.extents = {images.sizes[0], a.sizes[1], b->sizes[2], a.sizes[2]};
  const DimVector axes = AxesFrom(0, 4);  // b, m, n, k
  product.operands[Contraction::kA] = {std::move(a),
                                       {axes[0], axes[1], axes[3]}};
  product.operands[Contraction::kB] = {*std::move(b),
                                       {axes[0], axes[3], axes[2]}};
  product.operands[Contraction::kC] = {*std::move(c),
                                       {axes[0], axes[1], axes[2]}};
  return product;
}

// The sums of a convolution, and the bias of each channel where a library adds it.
absl::Status ConvolutionSums(NodeLowering& n, View x, View w, View y,
                             bool biased) {
  const bool allow_tf32 = n.g.options.allow_tf32_convolution;
  if (IsImageProduct(n.g.graph, n.node)) {
    std::optional<Contraction> product = ImageProduct(x, w, false, y);
    if (product.has_value())
      return ContractionWriter(n, *std::move(product))
          .Finish(allow_tf32, /*whole_sums=*/true);
  }
  // A transposed one writes the image of the direct one that has its input for a
  // result.
  const bool transposed = BoolOf(n.arg(6));
  if (transposed) std::swap(x, y);
  Contraction c = ConvolutionOver(n, 3, x.sizes, w.sizes, y.sizes);
  c.written = transposed ? Contraction::kA : Contraction::kC;
  c.operands[Contraction::kA].view = std::move(x);
  c.operands[Contraction::kB].view = std::move(w);
  c.operands[Contraction::kC].view = std::move(y);
  const SymExpr channel = c.result().index[1];
  ContractionWriter writer(n, std::move(c));
  if (biased) writer.Add(writer.Load(2, {channel}));
  return writer.Finish(allow_tf32);
}

// convolution(input, weight, bias, stride, padding, dilation, transposed,
// output_padding, groups).
absl::Status Convolution(NodeLowering& n) {
  View x = ImageOperand(n, 0), w = ImageOperand(n, 1);
  const View y = ResultView(n, 0);
  const bool biased = !n.arg(2).is_none();
  // cuDNN adds a bias in a kernel of its own. A loop of ours goes into what
  // follows.
  const bool apart = biased && n.g.graph.device == DeviceType::kCuda;
  View sums = y;
  if (apart) {
    sums.buffer =
        n.g.AddBuffer(BufferKind::kTemporary, y.dtype, y.sizes, y.strides);
  }
  RETURN_IF_ERROR(
      ConvolutionSums(n, std::move(x), std::move(w), sums, biased && !apart));
  if (!apart) return absl::OkStatus();
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(y.sizes);
  const DType type = ComputeType(y.dtype);
  const ScalarId bias = nest.LoadAs(n.tensor(2), {at[1]}, type);
  const ScalarId sum = nest.body.Cast(type, nest.LoadCell(sums.buffer, at));
  nest.StoreTo(y.buffer, at, nest.body.Op(ScalarOp::kAdd, sum, bias));
  nest.Finish();
  return absl::OkStatus();
}

// convolution_backward(grad, input, weight, bias_sizes, stride, padding,
// dilation, transposed, output_padding, groups, output_mask): a contraction for
// each gradient, which takes the place of what it is the gradient of.
absl::Status ConvolutionBackward(NodeLowering& n) {
  const Argument::List& mask = n.arg(10).list();
  if (BoolOf(mask[2])) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     "aten.convolution_backward.default: the gradient of the "
                     "bias, which decompose makes a sum");
  }
  const bool transposed = BoolOf(n.arg(7));
  const bool allow_tf32 = n.g.options.allow_tf32_convolution;
  const size_t image = transposed ? 0 : 1, result = transposed ? 1 : 0;
  const Contraction shape = ConvolutionOver(
      n, 4, n.meta(image).sizes, n.meta(2).sizes, n.meta(result).sizes);
  const size_t args[] = {image, 2, result};  // of kA, kB, kC
  for (size_t r = 0; r < 2; ++r) {
    if (!BoolOf(mask[r]) || n.g.uses[n.result(r).index] == 0) continue;
    Contraction c = shape;
    for (uint8_t place = 0; place < 3; ++place) {
      const bool written = args[place] == r + 1;
      if (written) c.written = static_cast<Contraction::Place>(place);
      c.operands[place].view =
          written ? ResultView(n, r) : ImageOperand(n, args[place]);
    }
    std::optional<Contraction> product;
    if (c.written == Contraction::kA && IsImageProduct(n.g.graph, n.node)) {
      product = ImageProduct(c.operands[Contraction::kC].view,
                             c.operands[Contraction::kB].view, true,
                             c.operands[Contraction::kA].view);
    }
    const bool whole_sums = product.has_value();
    if (whole_sums) c = *std::move(product);
    RETURN_IF_ERROR(
        ContractionWriter(n, std::move(c)).Finish(allow_tf32, whole_sums));
  }
  return absl::OkStatus();
}

// order(x, count, k, largest, how).
absl::Status Order(NodeLowering& n) {
  RowOrder order;
  const std::string& how = std::get<std::string>(n.arg(4).v);
  const std::optional<RowOrder::How> known = OrderFromName(how);
  if (!known.has_value()) {
    return absl::InternalError(
        absl::StrCat("prims.order: found how ", how, ", expected an order"));
  }
  order.how = *known;
  order.largest = BoolOf(n.arg(3));
  order.k = n.arg(2).sym();
  order.x = AnyOperand(n, 0);
  order.values = ResultView(n, 0);
  order.places = ResultView(n, 1);
  order.origin = n.origin;
  n.g.program.steps.push_back(std::move(order));
  return absl::OkStatus();
}

struct StepRow {
  absl::string_view name;
  absl::Status (*lower)(NodeLowering& n);
};

constexpr StepRow kRows[] = {
    {"aten.mm.default", Product},
    {"aten.bmm.default", Product},
    {"aten.addmm.default", ProductPlus},
    {"aten.baddbmm.default", ProductPlus},
    {"aten.convolution.default", Convolution},
    {"aten.convolution_backward.default", ConvolutionBackward},
    {"prims.order.default", Order},
    {"prims.attention.default", LowerAttention},
    {"prims.attention_backward.default", LowerAttentionBackward},
};

}  // namespace

absl::Status LowerStep(NodeLowering& n) {
  for (const StepRow& row : kRows) {
    if (row.name == n.node.op->name) return row.lower(n);
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat(n.node.op->name, ": no step of its own"));
}

}  // namespace kiln

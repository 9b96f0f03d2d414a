// Matrix products, convolutions and sorting: calls of a library, on strided
// views. What each takes is the runtime's contract (runtime/extern_kernels).

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// A library takes a matrix when one of its last two strides is 1.
bool IsMatrix(const View& view) {
  const size_t rank = view.sizes.size();
  return view.strides[rank - 1].Is(1) || view.strides[rank - 2].Is(1) ||
         view.sizes[rank - 1].Is(1) || view.sizes[rank - 2].Is(1);
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

// A tensor of a convolution must be contiguous or channels-last.
View ImageOperand(NodeLowering& n, size_t arg) {
  const std::optional<View> view = n.g.AsView(n.tensor(arg));
  if (view.has_value()) {
    const auto fits = [&](const DimVector& due) {
      for (size_t d = 0; d < due.size(); ++d) {
        if (!view->sizes[d].Is(1) && !(view->strides[d] == due[d])) {
          return false;
        }
      }
      return true;
    };
    if (fits(ContiguousStrides(view->sizes))) return *view;
    if (view->sizes.size() >= 4 && fits(ChannelsLastStrides(view->sizes))) {
      return *view;
    }
  }
  return n.g.CopyOf(n.tensor(arg), "copy");
}

View ResultView(NodeLowering& n, size_t r) {
  n.g.PlaceResult(n.result(r));
  return *n.g.AsView(n.result(r));
}

// The bias as [M, N] or [B, M, N], stretched by strides of 0.
View BiasOperand(NodeLowering& n, size_t arg, const DimVector& sizes) {
  View view = AnyOperand(n, arg);
  View wide{view.buffer, view.dtype, sizes, {}, view.offset};
  const size_t skip = sizes.size() - view.sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool own = d >= skip && !view.sizes[d - skip].Is(1);
    wide.strides.push_back(own ? view.strides[d - skip] : SymExpr(0));
  }
  return wide;
}

// What the library may round for speed. Only what is allowed and matters for
// the dtype is said, so that plans of other dtypes do not depend on it.
void AddPrecision(const ArtifactOptions& options, bool allow_tf32,
                  ExternCall& call) {
  const DType dtype = call.outputs[0].dtype;
  const bool reduced =
      (dtype == DType::kFloat16 && options.allow_fp16_reduced_precision) ||
      (dtype == DType::kBFloat16 && options.allow_bf16_reduced_precision);
  if (reduced) call.attributes.push_back({"allow_reduced_sums", int64_t{1}});
  if (dtype == DType::kFloat32 && allow_tf32) {
    call.attributes.push_back({"allow_tf32", int64_t{1}});
  }
}

absl::Status Push(NodeLowering& n, ExternCall call, bool allow_tf32) {
  AddPrecision(n.g.options, allow_tf32, call);
  call.origin = n.origin;
  call.client_nodes.assign(n.node.client_nodes.begin(),
                           n.node.client_nodes.end());
  n.g.program.steps.push_back(std::move(call));
  return absl::OkStatus();
}

// `arg` is the name, where the operator has one.
void AddActivation(const NodeLowering& n, size_t arg, ExternCall& call) {
  if (n.node.args.size() <= arg) return;
  call.attributes.insert(call.attributes.begin(),
                         {"activation", std::get<std::string>(n.arg(arg).v)});
}

absl::Status Product(NodeLowering& n, absl::string_view name) {
  ExternCall call;
  call.name = std::string(name);
  call.inputs = {MatrixOperand(n, 0), MatrixOperand(n, 1)};
  call.outputs = {ResultView(n, 0)};
  AddActivation(n, 2, call);
  return Push(n, std::move(call), n.g.options.allow_tf32);
}
absl::Status Mm(NodeLowering& n) { return Product(n, "mm"); }
absl::Status Bmm(NodeLowering& n) { return Product(n, "bmm"); }

// addmm(self, mat1, mat2, *, beta, alpha) and baddbmm.
absl::Status ProductPlus(NodeLowering& n, absl::string_view name) {
  ExternCall call;
  call.name = std::string(name);
  call.inputs = {BiasOperand(n, 0, n.result_meta().sizes), MatrixOperand(n, 1),
                 MatrixOperand(n, 2)};
  call.outputs = {ResultView(n, 0)};
  call.attributes.push_back({"alpha", n.Number(4, 1)});
  call.attributes.push_back({"beta", n.Number(3, 1)});
  AddActivation(n, 5, call);
  return Push(n, std::move(call), n.g.options.allow_tf32);
}
absl::Status Addmm(NodeLowering& n) { return ProductPlus(n, "addmm"); }
absl::Status Baddbmm(NodeLowering& n) { return ProductPlus(n, "baddbmm"); }

std::vector<SymExpr> Ints(const Argument& list, size_t count) {
  std::vector<SymExpr> ints;
  for (const Argument& item : list.list()) ints.push_back(item.sym());
  while (ints.size() < count && !ints.empty()) ints.push_back(ints.back());
  return ints;
}

void AddGeometry(ExternCall& call, const NodeLowering& n, size_t first,
                 size_t spatial) {
  call.attributes.push_back({"dilation", Ints(n.arg(first + 2), spatial)});
  call.attributes.push_back({"groups", n.Int(first + 5)});
  call.attributes.push_back(
      {"output_padding", Ints(n.arg(first + 4), spatial)});
  call.attributes.push_back({"padding", Ints(n.arg(first + 1), spatial)});
  call.attributes.push_back({"stride", Ints(n.arg(first), spatial)});
  call.attributes.push_back(
      {"transposed", static_cast<int64_t>(BoolOf(n.arg(first + 3)))});
}

// convolution(input, weight, bias, stride, padding, dilation, transposed,
// output_padding, groups).
absl::Status Convolution(NodeLowering& n) {
  ExternCall call;
  call.name = "convolution";
  call.inputs = {ImageOperand(n, 0), ImageOperand(n, 1)};
  if (!n.arg(2).is_none()) call.inputs.push_back(AnyOperand(n, 2));
  call.outputs = {ResultView(n, 0)};
  AddGeometry(call, n, 3, n.meta(0).sizes.size() - 2);
  AddActivation(n, 9, call);
  return Push(n, std::move(call), n.g.options.allow_tf32_convolution);
}

// convolution_backward(grad, input, weight, bias_sizes, stride, padding,
// dilation, transposed, output_padding, groups, output_mask).
absl::Status ConvolutionBackward(NodeLowering& n) {
  ExternCall call;
  call.name = "convolution_backward";
  call.inputs = {ImageOperand(n, 0), ImageOperand(n, 1), ImageOperand(n, 2)};
  const Argument::List& mask = n.arg(10).list();
  if (BoolOf(mask[2])) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     "aten.convolution_backward.default: the gradient of the "
                     "bias, which decompose makes a sum");
  }
  std::vector<SymExpr> wanted;
  for (size_t r = 0; r < 2; ++r) {
    const bool on = BoolOf(mask[r]) && n.g.uses[n.result(r).index] > 0;
    wanted.push_back(on ? 1 : 0);
    if (on) call.outputs.push_back(ResultView(n, r));
  }
  if (call.outputs.empty()) return absl::OkStatus();
  AddGeometry(call, n, 4, n.meta(1).sizes.size() - 2);
  call.attributes.insert(call.attributes.begin() + 2,
                         Attribute{"output_mask", std::move(wanted)});
  return Push(n, std::move(call), n.g.options.allow_tf32_convolution);
}

// order(x, count, k, largest, how).
absl::Status Order(NodeLowering& n) {
  ExternCall call;
  call.name = "order";
  call.inputs = {AnyOperand(n, 0)};
  call.outputs = {ResultView(n, 0), ResultView(n, 1)};
  call.attributes = {{"how", std::get<std::string>(n.arg(4).v)},
                     {"k", std::vector<SymExpr>{n.arg(2).sym()}},
                     {"largest", static_cast<int64_t>(BoolOf(n.arg(3)))}};
  call.origin = n.origin;
  n.g.program.steps.push_back(std::move(call));
  return absl::OkStatus();
}

struct ExternRow {
  absl::string_view name;
  absl::Status (*lower)(NodeLowering& n);
};

constexpr ExternRow kRows[] = {
    {"aten.mm.default", Mm},
    {"aten.bmm.default", Bmm},
    {"aten.addmm.default", Addmm},
    {"aten.baddbmm.default", Baddbmm},
    {"prims.mm_activation.default", Mm},
    {"prims.addmm_activation.default", Addmm},
    {"prims.convolution_activation.default", Convolution},
    {"aten.convolution.default", Convolution},
    {"aten.convolution_backward.default", ConvolutionBackward},
    {"prims.order.default", Order},
};

}  // namespace

absl::Status LowerExtern(NodeLowering& n) {
  static const auto* const kByName = [] {
    auto* map = new absl::flat_hash_map<absl::string_view,
                                        absl::Status (*)(NodeLowering&)>;
    for (const ExternRow& row : kRows) map->emplace(row.name, row.lower);
    return map;
  }();
  const auto found = kByName->find(n.node.op->name);
  if (found == kByName->end()) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(n.node.op->name, ": no library call"));
  }
  return found->second(n);
}

}  // namespace kiln

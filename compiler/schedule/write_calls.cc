#include "compiler/schedule/write_calls.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/loop/index_expr.h"
#include "compiler/schedule/library_epilogue.h"

namespace kiln {
namespace {

void AddAllowances(const Contraction& c, LibraryCall& call) {
  if (c.allow_reduced_sums)
    call.attributes.push_back({"allow_reduced_sums", int64_t{1}});
  if (c.allow_tf32) call.attributes.push_back({"allow_tf32", int64_t{1}});
}

void WriteProduct(const Contraction& c, LibraryEpilogue epilogue,
                  LibraryCall& call) {
  const bool plain = epilogue.alpha == 1 && !epilogue.bias.has_value();
  call.name = absl::StrCat(plain            ? ""
                           : c.is_batched() ? "badd"
                                            : "add",
                           c.is_batched() ? "bmm" : "mm");
  if (!plain) {
    // A scaled sum needs a bias operand. With beta 0 it is not read.
    if (!epilogue.bias.has_value()) {
      epilogue.bias = c.result().view;
      epilogue.beta = 0;
    }
    call.inputs.push_back(*std::move(epilogue.bias));
    call.attributes.push_back({"alpha", epilogue.alpha});
    call.attributes.push_back({"beta", epilogue.beta});
  }
  call.inputs.push_back(c.operands[Contraction::kA].view);
  call.inputs.push_back(c.operands[Contraction::kB].view);
  call.outputs.push_back(c.result().view);
  if (epilogue.gelu_input.has_value())
    call.inputs.push_back(*std::move(epilogue.gelu_input));
}

// For each spatial dimension the distance in the image for one step along axis
// first_axis + d.
std::vector<SymExpr> Steps(const Contraction& c, uint32_t first_axis) {
  std::vector<SymExpr> steps;
  for (uint32_t d = 0; d < c.spatial(); ++d) {
    steps.push_back(AsLinear(c.operands[Contraction::kA].index[2 + d])
                        ->CoefficientOf(first_axis + d));
  }
  return steps;
}

void WriteConvolution(const Contraction& c, LibraryEpilogue epilogue,
                      LibraryCall& call) {
  const auto spatial = static_cast<uint32_t>(c.spatial());
  call.name = "convolution";
  call.inputs = {c.factor(0).view, c.factor(1).view};
  if (epilogue.bias.has_value())
    call.inputs.push_back(*std::move(epilogue.bias));
  if (epilogue.added.has_value()) {
    call.inputs.push_back(*std::move(epilogue.added));
    call.attributes.push_back({"added", int64_t{1}});
  }
  call.outputs = {c.result().view};
  std::vector<SymExpr> padding;
  for (size_t d = 0; d < spatial; ++d) {
    padding.push_back(
        AsLinear(c.operands[Contraction::kA].index[2 + d])->offset * -1);
  }
  if (c.deterministic) call.attributes.push_back({"deterministic", int64_t{1}});
  call.attributes.push_back({"dilation", Steps(c, 4 + spatial)});
  call.attributes.push_back({"groups", c.extents[1].constant()});
  call.attributes.push_back({"padding", padding});
  call.attributes.push_back({"stride", Steps(c, 4)});
  constexpr absl::string_view kWanted[] = {"image", "weights", "result"};
  call.attributes.push_back({"wanted", std::string(kWanted[c.written])});
}

}  // namespace

LibraryCall CallOf(const Contraction& c, const std::vector<Buffer>& buffers,
                   const ShapeEnv& shapes) {
  LibraryCall call;
  call.origin = absl::StrJoin(c.origins, "+");
  call.client_nodes = c.client_nodes;
  const LibraryEpilogue epilogue =
      LibraryEpilogueOf(c, buffers, shapes).value();
  if (!epilogue.activation.empty()) {
    call.attributes.push_back({"activation", std::string(epilogue.activation)});
  }
  if (c.form == Contraction::Form::kProduct) {
    WriteProduct(c, epilogue, call);
  } else {
    WriteConvolution(c, epilogue, call);
  }
  AddAllowances(c, call);
  return call;
}

LibraryCall CallOf(const Attention& a) {
  LibraryCall call;
  call.name = a.backward ? "attention_backward" : "attention";
  call.origin = a.origin;
  call.client_nodes = a.client_nodes;
  constexpr size_t kReadInOrder[] = {
      Attention::kGrad,  Attention::kQuery, Attention::kKey,
      Attention::kValue, Attention::kOut,   Attention::kLogsumexp,
      Attention::kBias,  Attention::kSeed,  Attention::kOffset};
  for (const size_t place : kReadInOrder) {
    if (a.arrays[place].has_value() && !a.Writes(place))
      call.inputs.push_back(*a.arrays[place]);
  }
  for (size_t place = 0; place < Attention::kPlaces; ++place) {
    if (a.arrays[place].has_value() && a.Writes(place))
      call.outputs.push_back(*a.arrays[place]);
  }
  if (a.arrays[Attention::kBias].has_value())
    call.attributes.push_back({"biased", int64_t{1}});
  if (a.causal != Attention::Causal::kNone)
    call.attributes.push_back({"causal", std::string(CausalName(a.causal))});
  if (a.dropout > 0) call.attributes.push_back({"dropout", a.dropout});
  call.attributes.push_back({"scale", a.scale});
  if (a.window > 0) call.attributes.push_back({"window", a.window});
  return call;
}

LibraryCall CallOf(const RowOrder& order) {
  LibraryCall call;
  call.name = "order";
  call.origin = order.origin;
  call.client_nodes = order.client_nodes;
  call.inputs = {order.x};
  call.outputs = {order.values, order.places};
  call.attributes = {{"how", std::string(OrderName(order.how))},
                     {"k", std::vector<SymExpr>{order.k}},
                     {"largest", int64_t{order.largest}}};
  return call;
}

}  // namespace kiln

// prims.attention and prims.attention_backward as steps of their own.

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The widest load of libraries, in elements of a half type and in bytes.
constexpr int64_t kAligned = 8;
constexpr uint32_t kAlignedBytes = 16;

bool IsAligned(const SymExpr& elements) {
  return Mod(elements, kAligned).Is(0);
}

// Whether rows of heads are contiguous and, for half types on CUDA, aligned to 16 bytes.
// A copy is.
bool IsHeads(const View& view, const Buffer& buffer, DeviceType device) {
  const size_t last = view.strides.size() - 1;
  if (!view.strides[last].Is(1)) return false;
  if (!IsHalf(view.dtype) || device == DeviceType::kCpu) return true;
  if (!IsAligned(view.offset) || !IsAligned(buffer.offset) ||
      buffer.alignment_bytes % kAlignedBytes != 0) {
    return false;
  }
  for (size_t d = 0; d < last; ++d)
    if (!IsAligned(view.strides[d])) return false;
  return true;
}

// Whether the columns of a bias are contiguous. Other dimensions may be broadcast.
bool IsBias(const View& view) {
  return view.strides.back().Is(1) || view.sizes.back().Is(1);
}

class AttentionLowering {
 public:
  AttentionLowering(NodeLowering& n, bool backward) : n_(n) {
    a_.backward = backward;
    a_.origin = n.origin;
    a_.client_nodes.assign(n.node.client_nodes.begin(),
                           n.node.client_nodes.end());
  }

  // Reads the arguments after the arrays: causal, window, scale, dropout_p. `first` is
  // the number of the first one.
  absl::Status ReadNumbers(size_t first) {
    const std::string& causal = std::get<std::string>(n_.arg(first).v);
    const std::optional<Attention::Causal> known = CausalFromName(causal);
    if (!known.has_value()) {
      return absl::InternalError(absl::StrCat(
          n_.node.op->name, ": found causal ", causal, ", expected a name"));
    }
    a_.causal = *known;
    a_.window = n_.Int(first + 1);
    a_.scale = n_.Number(first + 2, 1);
    a_.dropout = n_.Number(first + 3, 0);
    return absl::OkStatus();
  }

  void Read(Attention::Place place, size_t arg) {
    if (n_.arg(arg).is_none()) return;
    const std::optional<View> view = n_.g.AsView(n_.tensor(arg));
    const bool fits = view.has_value() && Fits(place, *view, n_.g);
    a_.arrays[place] = fits ? *view : n_.g.CopyOf(n_.tensor(arg), "copy");
  }

  void Write(Attention::Place place, size_t result) {
    n_.g.PlaceResult(n_.result(result));
    a_.arrays[place] = *n_.g.AsView(n_.result(result));
  }

  absl::Status Finish() {
    const DimVector& q = a_.at(Attention::kQuery).sizes;
    const DimVector& v = a_.at(Attention::kValue).sizes;
    a_.extents = {q[0], q[1], v[1], q[2], v[2], q[3], v[3]};
    // Sizes that are known to be equal become the same expression.
    for (size_t place = 0; place < Attention::kPlaces; ++place) {
      if (!a_.arrays[place].has_value()) continue;
      const absl::string_view axes = AxesOf(place);
      for (size_t d = 0; d < axes.size(); ++d)
        a_.arrays[place]->sizes[d] = a_.extents[AxisLetters().find(axes[d])];
    }
    n_.g.program.steps.push_back(std::move(a_));
    return absl::OkStatus();
  }

 private:
  static bool Fits(Attention::Place place, const View& view,
                   const GraphLowering& g) {
    switch (place) {
      case Attention::kSeed:
      case Attention::kOffset:
        return true;
      case Attention::kBias:
        return IsBias(view);
      case Attention::kLogsumexp:
        return view.strides == ContiguousStrides(view.sizes);
      default:
        return IsHeads(view, g.program.buffers[view.buffer], g.graph.device);
    }
  }

  NodeLowering& n_;
  Attention a_;
};

}  // namespace

// attention(query, key, value, bias, seed, offset, causal, window, scale,
// dropout_p, strides)
absl::Status LowerAttention(NodeLowering& n) {
  AttentionLowering lowering(n, false);
  RETURN_IF_ERROR(lowering.ReadNumbers(6));
  lowering.Read(Attention::kQuery, 0);
  lowering.Read(Attention::kKey, 1);
  lowering.Read(Attention::kValue, 2);
  lowering.Read(Attention::kBias, 3);
  lowering.Read(Attention::kSeed, 4);
  lowering.Read(Attention::kOffset, 5);
  lowering.Write(Attention::kOut, 0);
  lowering.Write(Attention::kLogsumexp, 1);
  return lowering.Finish();
}

// attention_backward(grad, query, key, value, out, logsumexp, bias, seed, offset,
// causal, window, scale, dropout_p, ...)
absl::Status LowerAttentionBackward(NodeLowering& n) {
  AttentionLowering lowering(n, true);
  RETURN_IF_ERROR(lowering.ReadNumbers(9));
  lowering.Read(Attention::kGrad, 0);
  lowering.Read(Attention::kQuery, 1);
  lowering.Read(Attention::kKey, 2);
  lowering.Read(Attention::kValue, 3);
  lowering.Read(Attention::kOut, 4);
  lowering.Read(Attention::kLogsumexp, 5);
  lowering.Read(Attention::kBias, 6);
  lowering.Read(Attention::kSeed, 7);
  lowering.Read(Attention::kOffset, 8);
  lowering.Write(Attention::kQueryGrad, 0);
  lowering.Write(Attention::kKeyGrad, 1);
  lowering.Write(Attention::kValueGrad, 2);
  return lowering.Finish();
}

}  // namespace kiln

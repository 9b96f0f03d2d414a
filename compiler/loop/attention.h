#ifndef KILN_COMPILER_LOOP_ATTENTION_H_
#define KILN_COMPILER_LOOP_ATTENTION_H_

// Attention and its gradient as a step of the loop program. The step says what is
// computed; the schedule decides whether a library or generated code computes it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/loop/buffer.h"
#include "compiler/sym/sym_expr.h"

namespace kiln {

// Arrays over named axes: b batch, h heads, x heads of keys (h / x heads share
// one), m queries, n keys, e and v the size of a head of keys and of values.
//
//   out = dropped(softmax(scale * query @ key^T + bias)) @ value
//
// and the logarithm of each row's sum of exponentials. Exponentials are f32.
struct Attention {
  enum Axis : uint8_t { kB, kH, kX, kM, kN, kE, kV };
  static constexpr size_t kAxes = 7;
  enum Place : uint8_t {
    kQuery,      // [b, h, m, e]
    kKey,        // [b, x, n, e]
    kValue,      // [b, x, n, v]
    kOut,        // [b, h, m, v]
    kLogsumexp,  // [b, h, m], f32
    kBias,    // [b, h, m, n], strides of 0 where it is stretched; may be none
    kSeed,    // [], i64: which weights dropout leaves
    kOffset,  // [], i64
    kGrad,    // [b, h, m, v], of out
    kQueryGrad,
    kKeyGrad,
    kValueGrad,
  };
  static constexpr size_t kPlaces = 12;
  // The columns that row m attends to: all, n <= m, or n - |n| <= m - |m|.
  enum class Causal : uint8_t { kNone, kTopLeft, kBottomRight };

  // Forward: writes out and logsumexp. Backward: reads them and grad, and writes
  // the three gradients.
  bool backward = false;
  std::string origin;                  // the operator it came from
  std::vector<uint32_t> client_nodes;  // as a nest's
  std::array<SymExpr, kAxes> extents;
  std::array<std::optional<View>, kPlaces> arrays;
  Causal causal = Causal::kNone;
  // A row attends to the last `window` columns up to the diagonal; 0: to all.
  int64_t window = 0;
  double scale = 1;
  double dropout = 0;  // the probability with which a weight becomes 0
  // Kernels of ours compute it (schedule/choose_contraction.h), else a library.
  bool own = false;

  bool Writes(size_t place) const {
    return backward ? place >= kQueryGrad
                    : place == kOut || place == kLogsumexp;
  }
  const View& at(Place place) const { return *arrays[place]; }
};

absl::string_view PlaceName(size_t place);  // "query_grad"
absl::string_view AxisLetters();            // "bhxmnev"
// The axes of a place, as letters: "bhme".
absl::string_view AxesOf(size_t place);
// "", "top_left" or "bottom_right": as in prims.attention, in text and in the
// runtime's contract.
absl::string_view CausalName(Attention::Causal causal);
std::optional<Attention::Causal> CausalFromName(absl::string_view name);

// Calls visit(view, writes) for each array.
template <typename Visit>
void VisitArrays(const Attention& attention, Visit visit) {
  for (size_t place = 0; place < Attention::kPlaces; ++place) {
    if (attention.arrays[place].has_value())
      visit(*attention.arrays[place], attention.Writes(place));
  }
}

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_ATTENTION_H_

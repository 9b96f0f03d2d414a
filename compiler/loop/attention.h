#ifndef KILN_COMPILER_LOOP_ATTENTION_H_
#define KILN_COMPILER_LOOP_ATTENTION_H_

// Attention or its gradient as a step of a loop program. The step says what is computed.
// The schedule decides whether a library or generated code computes it.

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

// Arrays have named axes: b batch, h heads, x heads of keys and values (each is shared by
// h / x heads), m queries, n keys, e size of a query's and a key's head, v size of a
// value's head.
//
//   out = dropped(softmax(scale * query @ key^T + bias)) @ value
//
// and logsumexp, the logarithm of each row's sum of exponentials. Exponentials are f32.
struct Attention {
  enum Axis : uint8_t { kB, kH, kX, kM, kN, kE, kV };
  static constexpr size_t kAxes = 7;
  enum Place : uint8_t {
    kQuery,      // [b, h, m, e]
    kKey,        // [b, x, n, e]
    kValue,      // [b, x, n, v]
    kOut,        // [b, h, m, v]
    kLogsumexp,  // [b, h, m], f32
    kBias,    // [b, h, m, n], strides of 0 where it is broadcast; may be absent
    kSeed,    // [], i64: with the offset, decides which weights dropout keeps
    kOffset,  // [], i64
    kGrad,    // [b, h, m, v], the gradient of out
    kQueryGrad,
    kKeyGrad,
    kValueGrad,
  };
  static constexpr size_t kPlaces = 12;
  // The columns n that row m attends to: all, n <= m, or n - |n| <= m - |m|, where |n|
  // and |m| are the numbers of columns and rows.
  enum class Causal : uint8_t { kNone, kTopLeft, kBottomRight };

  // If false, computes out and logsumexp. If true, reads these and grad, and computes the
  // three other gradients.
  bool backward = false;
  std::string origin;                  // the operator it came from
  std::vector<uint32_t> client_nodes;  // see LoopNest::client_nodes
  std::array<SymExpr, kAxes> extents;
  std::array<std::optional<View>, kPlaces> arrays;
  Causal causal = Causal::kNone;
  // A row attends to the last `window` columns up to the diagonal. 0: no limit.
  int64_t window = 0;
  double scale = 1;
  double dropout = 0;  // the probability that a weight becomes 0
  // Whether kernels of ours compute it, not a library (schedule/choose_contraction.h).
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
// "", "top_left" or "bottom_right": the names in prims.attention, in text and in the
// runtime's library calls.
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

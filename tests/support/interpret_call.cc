#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/reference/special_functions.h"
#include "tests/support/interpret_attention.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {

Cell MemoryView::At(absl::Span<const int64_t> index) const {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
  return ReadCell(dtype, first + at * SizeInBytes(dtype));
}

void MemoryView::Set(absl::Span<const int64_t> index, Cell value) const {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
  WriteCell(dtype, value, first + at * SizeInBytes(dtype));
}

namespace {

double FloatAttribute(const LibraryCall& call, absl::string_view name,
                      double fallback) {
  for (const Attribute& a : call.attributes) {
    if (a.name != name) continue;
    if (const auto* f = std::get_if<double>(&a.value)) return *f;
    if (const auto* i = std::get_if<int64_t>(&a.value)) {
      return static_cast<double>(*i);
    }
  }
  return fallback;
}

std::vector<int64_t> IntsAttribute(const LibraryCall& call,
                                   absl::string_view name) {
  std::vector<int64_t> out;
  for (const Attribute& a : call.attributes) {
    if (a.name != name) continue;
    for (const SymExpr& e : std::get<std::vector<SymExpr>>(a.value)) {
      out.push_back(e.is_constant() ? e.constant() : 0);
    }
  }
  return out;
}

std::string TextAttribute(const LibraryCall& call, absl::string_view name) {
  for (const Attribute& a : call.attributes)
    if (a.name == name) return std::get<std::string>(a.value);
  return "";
}

double Activated(absl::string_view activation, double x) {
  if (activation == "relu") return x > 0 || std::isnan(x) ? x : 0;
  if (activation != "gelu_tanh") return x;
  return GeluTanh(x);
}

// out[b, m, n] = beta * bias + alpha * a @ b, with an activation, or times the gradient
// of a gelu at `input`.
void MatMul(const MemoryView& a, const MemoryView& b, const MemoryView* bias,
            double alpha, double beta, absl::string_view activation,
            const MemoryView* input, const MemoryView& out) {
  const size_t r = out.sizes.size();
  const bool batched = r == 3;
  const int64_t batch = batched ? out.sizes[0] : 1;
  const int64_t inner = a.sizes[r - 1];
  for (int64_t g = 0; g < batch; ++g) {
    for (int64_t m = 0; m < out.sizes[r - 2]; ++m) {
      for (int64_t n = 0; n < out.sizes[r - 1]; ++n) {
        const auto at = [&](int64_t x, int64_t y) {
          return batched ? std::vector<int64_t>{g, x, y}
                         : std::vector<int64_t>{x, y};
        };
        double sum = 0;
        int64_t whole = 0;
        for (int64_t k = 0; k < inner; ++k) {
          const Cell x = a.At(at(m, k)), y = b.At(at(k, n));
          sum += x.f * y.f;
          whole += x.i * y.i;
        }
        double value = alpha * sum;
        if (bias != nullptr && beta != 0) {
          value += beta * bias->At(at(m, n)).f;
          whole = whole * static_cast<int64_t>(alpha) +
                  static_cast<int64_t>(beta) * bias->At(at(m, n)).i;
        }
        if (input != nullptr) value *= GeluTanhGradient(input->At(at(m, n)).f);
        out.Set(at(m, n), {Activated(activation, value), whole});
      }
    }
  }
}

// Calls visit with each index below `sizes`.
template <typename Visit>
void Walk(const std::vector<int64_t>& sizes, Visit visit) {
  std::vector<int64_t> index(sizes.size(), 0);
  for (const int64_t size : sizes) {
    if (size == 0) return;
  }
  while (true) {
    visit(index);
    size_t d = sizes.size();
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

// Visits each product of image[n, c, p] and weights[o, c', k] that goes into
// result[n, o, q].
template <typename Visit>
void WalkConvolution(const LibraryCall& call, const MemoryView& x,
                     const MemoryView& w, const MemoryView& y, Visit visit) {
  const auto stride = IntsAttribute(call, "stride");
  const auto padding = IntsAttribute(call, "padding");
  const auto dilation = IntsAttribute(call, "dilation");
  const auto groups = static_cast<int64_t>(FloatAttribute(call, "groups", 1));
  const int64_t group_outputs = y.sizes[1] / groups;
  Walk(y.sizes, [&](const std::vector<int64_t>& yi) {
    std::vector<int64_t> window(w.sizes.begin() + 1, w.sizes.end());
    const int64_t group = yi[1] / group_outputs;
    Walk(window, [&](const std::vector<int64_t>& k) {
      std::vector<int64_t> xi = yi, wi = {yi[1]};
      xi[1] = group * w.sizes[1] + k[0];
      wi.insert(wi.end(), k.begin(), k.end());
      for (size_t d = 2; d < yi.size(); ++d) {
        xi[d] =
            yi[d] * stride[d - 2] - padding[d - 2] + k[d - 1] * dilation[d - 2];
        if (xi[d] < 0 || xi[d] >= x.sizes[d]) return;
      }
      visit(xi, wi, yi);
    });
  });
}

void Convolve(const LibraryCall& call, absl::Span<const MemoryView> in,
              const MemoryView& out) {
  const std::string wanted = TextAttribute(call, "wanted");
  const size_t written = wanted == "image" ? 0 : wanted == "weights" ? 1 : 2;
  const MemoryView* arrays[3];
  for (size_t place = 0, next = 0; place < 3; ++place)
    arrays[place] = place == written ? &out : &in[next++];
  // Sums of a half type are not rounded on the way.
  std::map<std::vector<int64_t>, double> sums;
  WalkConvolution(call, *arrays[0], *arrays[1], *arrays[2],
                  [&](const auto& xi, const auto& wi, const auto& yi) {
                    const std::vector<int64_t>* at[] = {&xi, &wi, &yi};
                    double product = 1;
                    for (size_t place = 0; place < 3; ++place) {
                      if (place != written)
                        product *= arrays[place]->At(*at[place]).f;
                    }
                    sums[*at[written]] += product;
                  });
  const std::string activation = TextAttribute(call, "activation");
  const bool adds = FloatAttribute(call, "added", 0) != 0;
  const bool has_bias = in.size() > (adds ? 3 : 2);
  Walk(out.sizes, [&](const std::vector<int64_t>& at) {
    double value = sums[at];
    if (has_bias) value += in[2].At({at[1]}).f;
    if (adds) value += in.back().At(at).f;
    out.Set(at, {Activated(activation, value), 0});
  });
}

// The values of each row of `x` in order, the first of equals first.
void OrderRows(const LibraryCall& call, const MemoryView& x,
               const MemoryView& values, const MemoryView& places) {
  std::string how;
  bool largest = false;
  for (const Attribute& a : call.attributes) {
    if (a.name == "how") how = std::get<std::string>(a.value);
    if (a.name == "largest") largest = std::get<int64_t>(a.value) != 0;
  }
  for (int64_t row = 0; row < x.sizes[0]; ++row) {
    std::vector<int64_t> order(x.sizes[1]);
    std::iota(order.begin(), order.end(), 0);
    const auto number = [&](int64_t i) {
      const Cell cell = x.At({row, i});
      return IsFloat(x.dtype) ? cell.f : static_cast<double>(cell.i);
    };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double u = number(a), v = number(b);
      if (largest) return std::isnan(u) ? !std::isnan(v) : u > v;
      return std::isnan(v) ? !std::isnan(u) : u < v;
    });
    int64_t from = 0;
    if (how == "kth") from = IntsAttribute(call, "k")[0];
    if (how == "median" || how == "nanmedian") {
      const int64_t numbers =
          std::count_if(order.begin(), order.end(),
                        [&](int64_t i) { return !std::isnan(number(i)); });
      const int64_t length = order.size();
      from = how == "median" && numbers < length
                 ? numbers
                 : std::max<int64_t>(numbers - 1, 0) / 2;
    }
    for (int64_t c = 0; c < values.sizes[1]; ++c) {
      values.Set({row, c}, x.At({row, order[from + c]}));
      places.Set({row, c}, {0, order[from + c]});
    }
  }
}

}  // namespace

absl::Status RunCall(const LibraryCall& call,
                     absl::Span<const MemoryView> inputs,
                     absl::Span<const MemoryView> outputs) {
  const std::string activation = TextAttribute(call, "activation");
  if (call.name == "mm" || call.name == "bmm") {
    const MemoryView* const input =
        activation == "gelu_tanh_gradient" ? &inputs[2] : nullptr;
    MatMul(inputs[0], inputs[1], nullptr, 1, 0, activation, input, outputs[0]);
  } else if (call.name == "addmm" || call.name == "baddbmm") {
    MatMul(inputs[1], inputs[2], &inputs[0], FloatAttribute(call, "alpha", 1),
           FloatAttribute(call, "beta", 1), activation, nullptr, outputs[0]);
  } else if (call.name == "convolution") {
    Convolve(call, inputs, outputs[0]);
  } else if (call.name == "attention" || call.name == "attention_backward") {
    RunAttention(call, inputs, outputs);
  } else if (call.name == "order") {
    OrderRows(call, inputs[0], outputs[0], outputs[1]);
  } else {
    return absl::InternalError(absl::StrCat("extern ", call.name));
  }
  return absl::OkStatus();
}

}  // namespace kiln

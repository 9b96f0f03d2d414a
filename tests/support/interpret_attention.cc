#include "tests/support/interpret_attention.h"

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "compiler/reference/special_functions.h"

namespace kiln {
namespace {

struct Numbers {
  double scale = 1, dropout = 0;
  int64_t window = 0, biased = 0;
  std::string causal;
};

Numbers NumbersOf(const LibraryCall& call) {
  Numbers numbers;
  for (const Attribute& a : call.attributes) {
    if (a.name == "scale") numbers.scale = std::get<double>(a.value);
    if (a.name == "dropout") numbers.dropout = std::get<double>(a.value);
    if (a.name == "window") numbers.window = std::get<int64_t>(a.value);
    if (a.name == "biased") numbers.biased = std::get<int64_t>(a.value);
    if (a.name == "causal") numbers.causal = std::get<std::string>(a.value);
  }
  return numbers;
}

// One head and what it sees.
class Head {
 public:
  Head(const Numbers& numbers, const MemoryView& q, const MemoryView& k,
       const MemoryView* bias, const MemoryView* seed, int64_t b, int64_t h)
      : n_(numbers), q_(q), k_(k), bias_(bias), seed_(seed), b_(b), h_(h) {}

  int64_t key_head() const { return h_ / (q_.sizes[1] / k_.sizes[1]); }

  double Score(int64_t m, int64_t n) const {
    const int64_t shift =
        n_.causal == "bottom_right" ? k_.sizes[2] - q_.sizes[2] : 0;
    const int64_t past = n - m - shift;
    if (!n_.causal.empty() && past > 0) return -INFINITY;
    if (n_.window > 0 && past <= -n_.window) return -INFINITY;
    double dot = 0;
    for (int64_t e = 0; e < q_.sizes[3]; ++e)
      dot += q_.At({b_, h_, m, e}).f * k_.At({b_, key_head(), n, e}).f;
    dot *= n_.scale;
    if (bias_ != nullptr) dot += bias_->At({b_, h_, m, n}).f;
    return dot;
  }

  double Kept(int64_t m, int64_t n) const {
    if (n_.dropout == 0) return 1;
    return KeptOfAttention(static_cast<uint64_t>(seed_->At({}).i),
                           {b_ * q_.sizes[1] + h_, m, n, q_.sizes[3]},
                           n_.dropout);
  }

 private:
  const Numbers& n_;
  const MemoryView& q_;
  const MemoryView& k_;
  const MemoryView* bias_;
  const MemoryView* seed_;
  const int64_t b_, h_;
};

void Forward(const Head& head, const MemoryView& v, int64_t b, int64_t h,
             const MemoryView& out, const MemoryView& logsumexp) {
  const int64_t rows = out.sizes[2], columns = v.sizes[2];
  for (int64_t m = 0; m < rows; ++m) {
    std::vector<double> p(columns);
    double top = -INFINITY, sum = 0;
    for (int64_t n = 0; n < columns; ++n)
      top = std::fmax(top, p[n] = head.Score(m, n));
    const bool blind = top == -INFINITY;
    for (double& x : p) sum += x = blind ? 0 : std::exp(x - top);
    logsumexp.Set({b, h, m}, {blind ? 0 : top + std::log(sum), 0});
    for (int64_t e = 0; e < out.sizes[3]; ++e) {
      double value = 0;
      for (int64_t n = 0; n < columns; ++n) {
        value += p[n] * head.Kept(m, n) * v.At({b, head.key_head(), n, e}).f;
      }
      out.Set({b, h, m, e}, {blind ? 0 : value / sum, 0});
    }
  }
}

using Sums = std::vector<double>;

double& At(Sums& sums, const MemoryView& of, int64_t b, int64_t h, int64_t m,
           int64_t e) {
  return sums[((b * of.sizes[1] + h) * of.sizes[2] + m) * of.sizes[3] + e];
}

void Backward(const Head& head, double scale, absl::Span<const MemoryView> in,
              int64_t b, int64_t h, absl::Span<const MemoryView> out,
              Sums (&sums)[3]) {
  const auto &g = in[0], &q = in[1], &k = in[2], &v = in[3], &o = in[4];
  const int64_t x = head.key_head();
  for (int64_t m = 0; m < q.sizes[2]; ++m) {
    double delta = 0;
    for (int64_t e = 0; e < g.sizes[3]; ++e)
      delta += g.At({b, h, m, e}).f * o.At({b, h, m, e}).f;
    for (int64_t n = 0; n < k.sizes[2]; ++n) {
      const double p = std::exp(head.Score(m, n) - in[5].At({b, h, m}).f);
      const double kept = head.Kept(m, n);
      double dp = 0;
      for (int64_t e = 0; e < g.sizes[3]; ++e) {
        dp += kept * g.At({b, h, m, e}).f * v.At({b, x, n, e}).f;
        At(sums[2], out[2], b, x, n, e) += kept * p * g.At({b, h, m, e}).f;
      }
      const double ds = p * (dp - delta) * scale;
      for (int64_t e = 0; e < q.sizes[3]; ++e) {
        At(sums[0], out[0], b, h, m, e) += ds * k.At({b, x, n, e}).f;
        At(sums[1], out[1], b, x, n, e) += ds * q.At({b, h, m, e}).f;
      }
    }
  }
}

void Store(Sums& sums, const MemoryView& to) {
  for (int64_t b = 0; b < to.sizes[0]; ++b)
    for (int64_t h = 0; h < to.sizes[1]; ++h)
      for (int64_t m = 0; m < to.sizes[2]; ++m)
        for (int64_t e = 0; e < to.sizes[3]; ++e)
          to.Set({b, h, m, e}, {At(sums, to, b, h, m, e), 0});
}

}  // namespace

void RunAttention(const LibraryCall& call, absl::Span<const MemoryView> inputs,
                  absl::Span<const MemoryView> outputs) {
  const Numbers numbers = NumbersOf(call);
  const bool backward = call.name == "attention_backward";
  size_t next = backward ? 6 : 3;
  const MemoryView* const bias =
      numbers.biased != 0 ? &inputs[next++] : nullptr;
  const MemoryView* const seed = numbers.dropout > 0 ? &inputs[next] : nullptr;
  const MemoryView& q = inputs[backward ? 1 : 0];
  const MemoryView& k = inputs[backward ? 2 : 1];
  Sums sums[3];
  for (size_t r = 0; backward && r < 3; ++r) {
    int64_t elements = 1;
    for (const int64_t size : outputs[r].sizes) elements *= size;
    sums[r].assign(elements, 0);
  }
  for (int64_t b = 0; b < q.sizes[0]; ++b) {
    for (int64_t h = 0; h < q.sizes[1]; ++h) {
      const Head head(numbers, q, k, bias, seed, b, h);
      if (backward) {
        Backward(head, numbers.scale, inputs, b, h, outputs, sums);
      } else {
        Forward(head, inputs[2], b, h, outputs[0], outputs[1]);
      }
    }
  }
  for (size_t r = 0; backward && r < 3; ++r) Store(sums[r], outputs[r]);
}

}  // namespace kiln

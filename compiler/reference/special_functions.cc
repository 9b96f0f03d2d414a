#include "compiler/reference/special_functions.h"

#include <array>
#include <cmath>
#include <utility>

namespace kiln {
namespace {

constexpr double kPi = 3.14159265358979323846;

using Words = std::array<uint32_t, 4>;

uint32_t Low(uint64_t v) { return static_cast<uint32_t>(v); }
uint32_t High(uint64_t v) { return static_cast<uint32_t>(v >> 32); }

Words Philox(uint64_t key, Words c, int rounds) {
  uint32_t key0 = Low(key), key1 = High(key);
  for (int round = 0; round < rounds; ++round) {
    const uint64_t left = uint64_t{0xD2511F53} * c[0];
    const uint64_t right = uint64_t{0xCD9E8D57} * c[2];
    c = {High(right) ^ c[1] ^ key0, Low(right), High(left) ^ c[3] ^ key1,
         Low(left)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return c;
}

}  // namespace

double Erfinv(double y) {
  if (!(std::fabs(y) <= 1)) return NAN;
  if (std::fabs(y) == 1) return y * INFINITY;
  // Winitzki's approximation (2e-3), then Newton until double is exhausted.
  const double l = std::log1p(-y * y);
  const double a = 0.147;
  const double b = 2 / (kPi * a) + l / 2;
  double x = std::copysign(std::sqrt(std::sqrt(b * b - l / a) - b), y);
  for (int step = 0; step < 4; ++step) {
    // erfc keeps digits that 1 - erf loses near the ends.
    const double error =
        y > 0 ? (1 - y) - std::erfc(x) : std::erfc(-x) - (1 + y);
    x -= error * std::sqrt(kPi) / 2 * std::exp(x * x);
  }
  return x;
}

double Digamma(double x) {
  if (x == 0) return std::copysign(INFINITY, -x);
  if (x < 0) {
    if (x == std::trunc(x)) return NAN;
    // Reflection: psi(1 - x) - psi(x) = pi / tan(pi x).
    return Digamma(1 - x) - kPi / std::tan(kPi * std::fmod(x, 1.0));
  }
  double shift = 0;
  for (; x < 12; x += 1) shift -= 1 / x;
  const double r = 1 / (x * x);
  // The asymptotic series with Bernoulli numbers; 1e-17 at x = 12.
  const double series =
      r * (1.0 / 12 -
           r * (1.0 / 120 -
                r * (1.0 / 252 -
                     r * (1.0 / 240 - r * (1.0 / 132 - r * 691.0 / 32760)))));
  return shift + std::log(x) - 0.5 / x - series;
}

double PhiloxUniform(uint64_t seed, uint64_t index, uint64_t stream) {
  const Words words = Philox(
      seed, {Low(index / 4), High(index / 4), Low(stream), High(stream)}, 10);
  return (words[index % 4] >> 8) * 0x1p-24;
}

double KeptOfAttention(uint64_t seed, const AttentionWeight& weight,
                       double dropout) {
  const double limit = std::fmin(std::round(dropout * 0x1p16), 0xFFFF);
  // A draw is for queries l, l + 8, l + 16, l + 24 by keys s, s + 8; for wide heads
  // queries and keys change places.
  constexpr int64_t kWide = 128;
  int64_t l = weight.query, s = weight.key;
  if (weight.width > kWide) std::swap(l, s);
  const Words words = Philox(
      seed,
      {Low(s / 16 * 8 + s % 8), Low(l / 32 * 8 + l % 8), Low(weight.head), 1},
      7);
  const uint32_t drawn = words[l / 8 % 4] >> s / 8 % 2 * 16 & 0xFFFF;
  return drawn < limit ? 0 : 0x1p16 / (0x1p16 - limit);
}

constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kGeluCube = 0.044715;

double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(kGeluScale * (x + kGeluCube * x * x * x)));
}

double GeluTanhGradient(double x) {
  const double t = std::tanh(kGeluScale * (x + kGeluCube * x * x * x));
  const double inner = kGeluScale * (1 + 3 * kGeluCube * x * x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
}

double LogAddExp(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return NAN;
  const double top = std::fmax(a, b);
  if (std::isinf(top)) return top;
  return top + std::log(std::exp(a - top) + std::exp(b - top));
}

double NormalCdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double NormalDensity(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * kPi);
}

}  // namespace kiln

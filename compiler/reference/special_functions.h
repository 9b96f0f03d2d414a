#ifndef KILN_COMPILER_REFERENCE_SPECIAL_FUNCTIONS_H_
#define KILN_COMPILER_REFERENCE_SPECIAL_FUNCTIONS_H_

// Functions that the C++ library lacks, in double, near full precision.

#include <cstdint>

namespace kiln {

// The x with erf(x) = y; infinite at -1 and 1, NaN beyond.
double Erfinv(double y);

// The logarithmic derivative of the gamma function; NaN at negative integers,
// -infinity at 0 and infinity at -0, as PyTorch.
double Digamma(double x);

// Uniform in [0, 1), 24 bits: word `index` % 4 of Philox4x32-10 with `seed` as
// key and (index / 4, stream) as counter. Source: Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3" (2011).
double PhiloxUniform(uint64_t seed, uint64_t index, uint64_t stream);

// A weight of attention that is a step of its own.
struct AttentionWeight {
  int64_t head;  // over the batch
  int64_t query, key;
  int64_t width;  // the size of a head of queries
};

// Its dropout: 0, or what a weight that stays is scaled by. A weight has 16 bits of
// Philox4x32-7 with `seed` as key, and is dropped if they are below `dropout` in units
// of 2^-16.
double KeptOfAttention(uint64_t seed, const AttentionWeight& weight,
                       double dropout);

// log(exp(a) + exp(b)).
double LogAddExp(double a, double b);

// The tanh form of GELU, and its derivative.
double GeluTanh(double x);
double GeluTanhGradient(double x);

// The cumulative distribution of the standard normal.
double NormalCdf(double x);
double NormalDensity(double x);

}  // namespace kiln

#endif  // KILN_COMPILER_REFERENCE_SPECIAL_FUNCTIONS_H_

// CUDA's prelude: wide accesses, half types by bits and PTX, joins across the
// threads of a row or a column, what C++ has not as its operators.

#include "compiler/codegen/prelude.h"

namespace kiln {
namespace {

constexpr char kInts[] = "u8 i8 i16 i32 i64";

constexpr PreludePart kParts[] = {
    {"K_FN", "", R"(#define K_FN static __device__ __forceinline__
)"},
    // Before all else, by every thread: what kernels before it on the stream
    // have written is seen from here on (PTX ISA, "griddepcontrol").
    {"k_wait_for_work_before", "",
     R"(K_FN void k_wait_for_work_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
)"},
    // T elements of N bytes move in accesses of up to 16 bytes.
    {"k_bytes", "", R"(template <int N> struct k_bytes;
template <> struct __attribute__((aligned(16))) k_bytes<16> { unsigned int x[4]; };
template <> struct __attribute__((aligned(8))) k_bytes<8> { unsigned int x[2]; };
template <> struct __attribute__((aligned(4))) k_bytes<4> { unsigned int x[1]; };
template <> struct __attribute__((aligned(2))) k_bytes<2> { unsigned short x[1]; };
template <class To, class From>
K_FN To k_as(const From& from) {
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}
)"},
    {"k_load", "", R"(template <class T, int V>
K_FN void k_load(const T* p, T (&to)[V]) {
  enum { kBytes = V * sizeof(T), kStep = kBytes < 16 ? kBytes : 16, kCount = kBytes / kStep };
  k_bytes<kStep> x[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = ((const k_bytes<kStep>*)p)[i];
  memcpy(to, x, sizeof(to));
}
)"},
    {"k_store", "", R"(template <class T, int V>
K_FN void k_store(T* p, const T (&from)[V]) {
  enum { kBytes = V * sizeof(T), kStep = kBytes < 16 ? kBytes : 16, kCount = kBytes / kStep };
  k_bytes<kStep> x[kCount];
  memcpy(x, from, sizeof(from));
#pragma unroll
  for (int i = 0; i < kCount; ++i) ((k_bytes<kStep>*)p)[i] = x[i];
}
)"},
    // Prints and stops the grid: the context ends with "device-side assert".
    {"k_outside", "",
     R"(extern "C" __device__ void __assertfail(const char* message, const char* file, unsigned int line, const char* function, unsigned long size);
static __device__ __noinline__ void k_outside(const char* message, const char* kernel) {
  __assertfail(message, "kiln", 0, kernel, 1);
  __trap();
}
)"},
    {"k_check_index", "",
     R"(K_FN long long k_check_index(long long i, long long n, bool asked, const char* message, const char* kernel) {
  if ((unsigned long long)i < (unsigned long long)n) return i;
  if (asked) k_outside(message, kernel);
  return 0;
}
)"},
    {"k_wrap_index", "",
     R"(K_FN long long k_wrap_index(long long i, long long n, bool asked, const char* message, const char* kernel) {
  return k_check_index(i < 0 ? i + n : i, n, asked, message, kernel);
}
)"},
    {"k_load_part", "", R"(template <class T, int V>
K_FN void k_load_part(const T* p, int m, T (&to)[V]) {
  if (m == V) {
    k_load(p, to);
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (e < m) to[e] = p[e];
  }
}
)"},
    {"k_store_part", "", R"(template <class T, int V>
K_FN void k_store_part(T* p, int m, const T (&from)[V]) {
  if (m == V) {
    k_store(p, from);
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (e < m) p[e] = from[e];
  }
}
)"},
    {"k_fill", "", R"(template <class T, int V>
K_FN void k_fill(T (&to)[V], T value) {
#pragma unroll
  for (int e = 0; e < V; ++e) to[e] = value;
}
)"},

    // Half types: bits in an unsigned short.
    {"k_bf16_to_f32", "",
     R"(K_FN float k_bf16_to_f32(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
)"},
    {"k_f32_to_bf16", "", R"(K_FN unsigned short k_f32_to_bf16(float x) {
  unsigned short y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
)"},
    {"k_f16_to_f32", "", R"(K_FN float k_f16_to_f32(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
)"},
    {"k_f32_to_f16", "", R"(K_FN unsigned short k_f32_to_f16(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
)"},
    {"k_bitcast", "", R"(template <class To, class From>
K_FN To k_bitcast(From x) {
  To y;
  memcpy(&y, &x, sizeof(y));
  return y;
}
)"},

    {"k_inf_f32", "",
     R"(K_FN float k_inf_f32() { return __uint_as_float(0x7f800000u); }
)"},
    {"k_nan_f32", "",
     R"(K_FN float k_nan_f32() { return __uint_as_float(0x7fc00000u); }
)"},
    {"k_inf_f64", "",
     R"(K_FN double k_inf_f64() { return __longlong_as_double(0x7ff0000000000000ll); }
)"},
    {"k_nan_f64", "",
     R"(K_FN double k_nan_f64() { return __longlong_as_double(0x7ff8000000000000ll); }
)"},
    {"k_not", "", R"(K_FN bool k_not(bool a) { return !a; }
)"},
    {"k_maximum_$T", "f32 f64",
     R"(K_FN $C k_maximum_$T($C a, $C b) { return a > b || a != a ? a : b; }
)"},
    {"k_minimum_$T", "f32 f64",
     R"(K_FN $C k_minimum_$T($C a, $C b) { return a < b || a != a ? a : b; }
)"},
    {"k_maximum_$T", kInts,
     R"(K_FN $C k_maximum_$T($C a, $C b) { return a > b ? a : b; }
)"},
    {"k_minimum_$T", kInts,
     R"(K_FN $C k_minimum_$T($C a, $C b) { return a < b ? a : b; }
)"},
    {"k_sign_$T", "u8 i8 i16 i32 i64 f32 f64",
     R"(K_FN $C k_sign_$T($C a) { return (a > 0) - (a < 0); }
)"},
    {"k_abs_$T", kInts, R"(K_FN $C k_abs_$T($C a) { return a < 0 ? -a : a; }
)"},
    {"k_isinf_$T", "f32 f64",
     R"(K_FN bool k_isinf_$T($C x) { return fabs$S(x) == k_inf_$T(); }
)"},
    {"k_signbit_f32", "",
     R"(K_FN bool k_signbit_f32(float x) { return __float_as_int(x) < 0; }
)"},
    {"k_signbit_f64", "",
     R"(K_FN bool k_signbit_f64(double x) { return __double_as_longlong(x) < 0; }
)"},
    {"k_truncdiv_$T", kInts,
     R"(K_FN $C k_truncdiv_$T($C a, $C b) { return b == 0 ? 0 : a / b; }
)"},
    {"k_fmod_$T", kInts,
     R"(K_FN $C k_fmod_$T($C a, $C b) { return b == 0 ? 0 : a % b; }
)"},
    {"k_floordiv_$T", kInts, R"(K_FN $C k_floordiv_$T($C a, $C b) {
  if (b == 0) return 0;
  const $C q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
)"},
    {"k_remainder_$T", kInts, R"(K_FN $C k_remainder_$T($C a, $C b) {
  if (b == 0) return 0;
  const $C r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
)"},
    {"k_pow_$T", kInts, R"(K_FN $C k_pow_$T($C a, $C b) {
  if (b < 0) return a == 1 ? 1 : a == ($C)-1 ? (b & 1 ? -1 : 1) : 0;
  unsigned long long r = 1, x = a;
  for (unsigned long long n = b; n != 0; n >>= 1, x *= x)
    if (n & 1) r *= x;
  return ($C)r;
}
)"},
    {"k_remainder_$T", "f32 f64", R"(K_FN $C k_remainder_$T($C a, $C b) {
  const $C r = fmod$S(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}
)"},
    {"k_floordiv_$T", "f32 f64", R"(K_FN $C k_floordiv_$T($C a, $C b) {
  if (b == 0) return a / b;
  const $C r = fmod$S(a, b);
  $C q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return copysign$S(($C)0, a / b);
  const $C f = floor$S(q);
  return q - f > ($C)0.5 ? f + 1 : f;
}
)"},
    {"k_digamma_$T", "f32 f64", R"(K_FN $C k_digamma_$T($C v) {
  double x = v, y = 0;
  if (x == 0) return -copysign$S(k_inf_$T(), v);
  if (x < 0) {
    if (x == floor(x)) return k_nan_$T();
    y = -3.14159265358979323846 / tan(3.14159265358979323846 * (x - floor(x)));
    x = 1 - x;
  }
  for (; x < 8; x += 1) y -= 1 / x;
  const double z = 1 / (x * x);
  y += log(x) - 0.5 / x - z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z / 132))));
  return ($C)y;
}
)"},
    {"k_pair", "", R"(template <class T>
struct k_pair {
  T value;
  long long index;
};
)"},
    {"k_argmax_$T", "i32 i64 f32 f64",
     R"(K_FN void k_argmax_$T($C& a, long long& i, $C b, long long j) {
  const bool an = a != a, bn = b != b, first = j < i;
  if (b > a || (b == a && first) || (bn && (!an || first))) a = b, i = j;
}
)"},
    {"k_argmin_$T", "i32 i64 f32 f64",
     R"(K_FN void k_argmin_$T($C& a, long long& i, $C b, long long j) {
  const bool an = a != a, bn = b != b, first = j < i;
  if (b < a || (b == a && first) || (bn && (!an || first))) a = b, i = j;
}
)"},

    // Joins over threads, always in the same order.
    {"k_shuffle", "", R"(template <class T>
K_FN T k_shuffle(T x, int distance) { return __shfl_xor_sync(0xffffffffu, x, distance); }
K_FN bool k_shuffle(bool x, int distance) { return __shfl_xor_sync(0xffffffffu, (int)x, distance) != 0; }
K_FN unsigned char k_shuffle(unsigned char x, int distance) { return (unsigned char)__shfl_xor_sync(0xffffffffu, (int)x, distance); }
K_FN signed char k_shuffle(signed char x, int distance) { return (signed char)__shfl_xor_sync(0xffffffffu, (int)x, distance); }
K_FN short k_shuffle(short x, int distance) { return (short)__shfl_xor_sync(0xffffffffu, (int)x, distance); }
template <class T>
K_FN k_pair<T> k_shuffle(k_pair<T> x, int distance) { return {k_shuffle(x.value, distance), k_shuffle(x.index, distance)}; }
)"},
    {"k_across", "",
     R"(// Over the kRow neighbouring threads of a row; all of them get the result.
template <int kRow, int kThreads, class T, class F>
K_FN T k_across(T x, F join) {
#pragma unroll
  for (int distance = (kRow < 32 ? kRow : 32) / 2; distance > 0; distance /= 2)
    x = join(x, k_shuffle(x, distance));
  if constexpr (kRow > 32) {
    __shared__ T parts[kThreads / 32];
    const int warp = (int)threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) parts[warp] = x;
    __syncthreads();
    const int first = (int)threadIdx.x / kRow * (kRow / 32);
    x = parts[first];
#pragma unroll
    for (int w = 1; w < kRow / 32; ++w) x = join(x, parts[first + w]);
  }
  return x;
}
)"},
    {"k_down", "",
     R"(// Over the kRows threads below one another; all of them get the results.
template <int kColumns, int kRows, class T, int V, class F>
K_FN void k_down(T (&x)[V], F join) {
  if constexpr (kRows > 1) {
    __shared__ T parts[V][kColumns * kRows];
#pragma unroll
    for (int e = 0; e < V; ++e) parts[e][threadIdx.x] = x[e];
    __syncthreads();
    const int column = (int)threadIdx.x % kColumns;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      x[e] = parts[e][column];
      for (int y = 1; y < kRows; ++y) x[e] = join(x[e], parts[e][y * kColumns + column]);
    }
  }
}
)"},

    {"k_atomic_add_$T", "i32 f32 f64",
     R"(K_FN void k_atomic_add_$T($C* p, $C x) { atomicAdd(p, x); }
)"},
    {"k_atomic_add_i64", "",
     R"(K_FN void k_atomic_add_i64(long long* p, long long x) { atomicAdd((unsigned long long*)p, (unsigned long long)x); }
)"},
    {"k_atomic_add_$T", "bf16 f16",
     R"(K_FN void k_atomic_add_$T(unsigned short* p, unsigned short x) {
  unsigned int* word = (unsigned int*)((unsigned long long)p & ~3ull);
  const int shift = ((unsigned long long)p & 2) * 8;
  unsigned int old = *word, seen;
  do {
    seen = old;
    const unsigned short sum = k_f32_to_$T(k_$T_to_f32((unsigned short)(seen >> shift)) + k_$T_to_f32(x));
    old = atomicCAS(word, seen, (seen & ~(0xffffu << shift)) | (unsigned int)sum << shift);
  } while (old != seen);
}
)"},
    // The same numbers as the CPU's prelude gives.
    {"k_philox", "",
     R"(K_FN void k_philox(long long seed, unsigned long long quad, unsigned long long stream, unsigned (&c)[4]) {
  unsigned k0 = (unsigned)seed, k1 = (unsigned)((unsigned long long)seed >> 32);
  c[0] = (unsigned)quad, c[1] = (unsigned)(quad >> 32);
  c[2] = (unsigned)stream, c[3] = (unsigned)(stream >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned n0 = __umulhi(0xCD9E8D57u, c[2]) ^ c[1] ^ k0;
    const unsigned n2 = __umulhi(0xD2511F53u, c[0]) ^ c[3] ^ k1;
    c[1] = 0xCD9E8D57u * c[2];
    c[3] = 0xD2511F53u * c[0];
    c[0] = n0;
    c[2] = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}
K_FN float k_uniform(unsigned x) { return (float)(x >> 8) * 5.9604644775390625e-08f; }
)"},
    {"k_random_f32", "",
     R"(K_FN float k_random_f32(long long seed, long long index, unsigned long long stream) {
  unsigned c[4];
  k_philox(seed, (unsigned long long)index >> 2, stream, c);
  const int word = (int)index & 3;
  return k_uniform(word == 0 ? c[0] : word == 1 ? c[1] : word == 2 ? c[2] : c[3]);
}
)"},
    // Of neighbours, from a multiple of four on: four a counter.
    {"k_random_row", "",
     R"(template <int V>
K_FN void k_random_row(long long seed, long long first, unsigned long long stream, float (&to)[V]) {
#pragma unroll
  for (int i = 0; i < V; i += 4) {
    unsigned c[4];
    k_philox(seed, (unsigned long long)(first + i) >> 2, stream, c);
#pragma unroll
    for (int j = 0; j < 4; ++j) to[i + j] = k_uniform(c[j]);
  }
}
)"},
};

}  // namespace

std::vector<PreludePart> CudaPrelude() {
  return std::vector<PreludePart>(std::begin(kParts), std::end(kParts));
}

}  // namespace kiln

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
    // V neighbours of type T as 32-bit words, so that halves take half a register
    // each while they wait. Indices must be constants once loops are unrolled.
    {"k_pack", "", R"(template <class T, int V>
struct k_pack {
  enum { kBytes = V * sizeof(T), kWords = (kBytes + 3) / 4 };
  unsigned x[kWords];
};
template <class T, int V>
K_FN T k_at(const k_pack<T, V>& p, int e) {
  if constexpr (sizeof(T) == 8) {
    const unsigned long long bits = (unsigned long long)p.x[2 * e + 1] << 32 | p.x[2 * e];
    T value;
    memcpy(&value, &bits, 8);
    return value;
  } else if constexpr (sizeof(T) == 4) {
    T value;
    memcpy(&value, &p.x[e], 4);
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return (T)(unsigned short)(p.x[e / 2] >> (e % 2 * 16));
  } else {
    return (T)(unsigned char)(p.x[e / 4] >> (e % 4 * 8));
  }
}
template <class T, int V>
K_FN void k_put(k_pack<T, V>& p, int e, T value) {
  if constexpr (sizeof(T) == 8) {
    unsigned long long bits;
    memcpy(&bits, &value, 8);
    p.x[2 * e] = (unsigned)bits;
    p.x[2 * e + 1] = (unsigned)(bits >> 32);
  } else if constexpr (sizeof(T) == 4) {
    memcpy(&p.x[e], &value, 4);
  } else if constexpr (sizeof(T) == 2) {
    const unsigned mask = 0xffffu << (e % 2 * 16);
    p.x[e / 2] = (p.x[e / 2] & ~mask) | (unsigned)(unsigned short)value << (e % 2 * 16);
  } else {
    const unsigned mask = 0xffu << (e % 4 * 8);
    p.x[e / 4] = (p.x[e / 4] & ~mask) | (unsigned)(unsigned char)value << (e % 4 * 8);
  }
}
)"},
    {"k_at", "", "/* k_pack */"},
    {"k_put", "", "/* k_pack */"},
    // Packs move in accesses of up to 16 bytes.
    {"k_words", "", R"(template <int N> struct k_words;
template <> struct __attribute__((aligned(16))) k_words<4> { unsigned x[4]; };
template <> struct __attribute__((aligned(8))) k_words<2> { unsigned x[2]; };
template <> struct __attribute__((aligned(4))) k_words<1> { unsigned x[1]; };
)"},
    {"k_load", "", R"(template <class T, int V>
K_FN k_pack<T, V> k_load(const T* p) {
  k_pack<T, V> to;
  if constexpr (k_pack<T, V>::kBytes % 4 != 0) {
#pragma unroll
    for (int e = 0; e < V; ++e) k_put(to, e, p[e]);
  } else {
    enum { kStep = (int)k_pack<T, V>::kWords < 4 ? (int)k_pack<T, V>::kWords : 4 };
#pragma unroll
    for (int i = 0; i < k_pack<T, V>::kWords; i += kStep) {
      const k_words<kStep> w = *((const k_words<kStep>*)p + i / kStep);
#pragma unroll
      for (int j = 0; j < kStep; ++j) to.x[i + j] = w.x[j];
    }
  }
  return to;
}
)"},
    {"k_store", "", R"(template <class T, int V>
K_FN void k_store(T* p, const k_pack<T, V>& from) {
  if constexpr (k_pack<T, V>::kBytes % 4 != 0) {
#pragma unroll
    for (int e = 0; e < V; ++e) p[e] = k_at(from, e);
  } else {
    enum { kStep = (int)k_pack<T, V>::kWords < 4 ? (int)k_pack<T, V>::kWords : 4 };
#pragma unroll
    for (int i = 0; i < k_pack<T, V>::kWords; i += kStep) {
      k_words<kStep> w;
#pragma unroll
      for (int j = 0; j < kStep; ++j) w.x[j] = from.x[i + j];
      *((k_words<kStep>*)p + i / kStep) = w;
    }
  }
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
    // Of the neighbours from lo to hi; the others are 0.
    {"k_load_part", "", R"(template <class T, int V>
K_FN k_pack<T, V> k_load_part(const T* p, int lo, int hi) {
  if (lo == 0 && hi == V) return k_load<T, V>(p);
  k_pack<T, V> to = {};
#pragma unroll
  for (int e = 0; e < V; ++e)
    if (e >= lo && e < hi) k_put(to, e, p[e]);
  return to;
}
)"},
    {"k_store_part", "", R"(template <class T, int V>
K_FN void k_store_part(T* p, int lo, int hi, const k_pack<T, V>& from) {
  if (lo == 0 && hi == V) {
    k_store(p, from);
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (e >= lo && e < hi) p[e] = k_at(from, e);
  }
}
)"},
    {"k_fill", "", R"(template <class T, int V>
K_FN void k_fill(k_pack<T, V>& to, T value) {
#pragma unroll
  for (int e = 0; e < V; ++e) k_put(to, e, value);
}
)"},
    {"k_round_bf16", "", R"(template <int V>
K_FN k_pack<unsigned short, V> k_round_bf16(const float (&x)[V]) {
  k_pack<unsigned short, V> to = {};
#pragma unroll
  for (int e = 0; e < V; e += 2) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(to.x[e / 2]) : "f"(x[e + 1]), "f"(x[e]));
  return to;
}
)"},
    {"k_round_f16", "", R"(template <int V>
K_FN k_pack<unsigned short, V> k_round_f16(const float (&x)[V]) {
  k_pack<unsigned short, V> to = {};
#pragma unroll
  for (int e = 0; e < V; e += 2) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to.x[e / 2]) : "f"(x[e + 1]), "f"(x[e]));
  return to;
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
    // A value and where it stands.
    {"k_pair", "", R"(template <class T, class I>
struct k_pair {
  T value;
  I index;
};
)"},
    // The first of equals, NaN before all.
    {"k_argmax", "", R"(template <class T, class I>
K_FN void k_argmax(T& a, I& i, T b, I j) {
  const bool an = a != a, bn = b != b, first = j < i;
  if (an == bn ? b > a || ((b == a || an) && first) : bn) a = b, i = j;
}
)"},
    {"k_argmin", "", R"(template <class T, class I>
K_FN void k_argmin(T& a, I& i, T b, I j) {
  const bool an = a != a, bn = b != b, first = j < i;
  if (an == bn ? b < a || ((b == a || an) && first) : bn) a = b, i = j;
}
)"},
    // The same for positions that only grow.
    {"k_argmax_next", "", R"(template <class T, class I>
K_FN void k_argmax_next(T& a, I& i, T b, I j) {
  if (i > j || (!(b <= a) && a == a)) a = b, i = j;
}
)"},
    {"k_argmin_next", "", R"(template <class T, class I>
K_FN void k_argmin_next(T& a, I& i, T b, I j) {
  if (i > j || (!(b >= a) && a == a)) a = b, i = j;
}
)"},

    // Joins over threads, always in the same order.
    {"k_shuffle", "", R"(/* k_pair */
template <class T>
K_FN T k_shuffle(T x, int distance) { return __shfl_xor_sync(0xffffffffu, x, distance); }
K_FN bool k_shuffle(bool x, int distance) { return __shfl_xor_sync(0xffffffffu, (int)x, distance) != 0; }
K_FN unsigned char k_shuffle(unsigned char x, int distance) { return (unsigned char)__shfl_xor_sync(0xffffffffu, (int)x, distance); }
K_FN signed char k_shuffle(signed char x, int distance) { return (signed char)__shfl_xor_sync(0xffffffffu, (int)x, distance); }
K_FN short k_shuffle(short x, int distance) { return (short)__shfl_xor_sync(0xffffffffu, (int)x, distance); }
template <class T, class I>
K_FN k_pair<T, I> k_shuffle(k_pair<T, I> x, int distance) { return {k_shuffle(x.value, distance), k_shuffle(x.index, distance)}; }
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
    // Each warp of the row joins the parts of all: as many as a power of two.
    x = parts[(int)threadIdx.x / kRow * (kRow / 32) + (int)threadIdx.x % (kRow / 32)];
#pragma unroll
    for (int distance = kRow / 64; distance > 0; distance /= 2)
      x = join(x, k_shuffle(x, distance));
  }
  return x;
}
)"},
    {"k_down", "",
     R"(// Over the kRows threads below one another; all of them get the results.
// `shared` has room for V values a thread.
template <int kColumns, int kRows, class T, int V, class F>
K_FN void k_down(void* shared, T (&x)[V], F join) {
  if constexpr (kRows > 1) {
    T* parts = (T*)shared;
    enum { kThreads = kColumns * kRows };
#pragma unroll
    for (int e = 0; e < V; ++e) parts[e * kThreads + threadIdx.x] = x[e];
#pragma unroll
    for (int rows = kRows / 2; rows > 0; rows /= 2) {
      __syncthreads();
      if (threadIdx.x < rows * kColumns) {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          T* p = parts + e * kThreads + threadIdx.x;
          *p = join(*p, p[rows * kColumns]);
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < V; ++e) x[e] = parts[e * kThreads + threadIdx.x % kColumns];
    __syncthreads();
  }
}
)"},
    // Whether this block is the last of `parts` that count up `counter`, which is
    // 0 before the first and after the last. Writes of all of them are seen then.
    {"k_last_block", "", R"(K_FN bool k_last_block(unsigned* counter, unsigned parts) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(counter, parts - 1) == parts - 1;
  __syncthreads();
  __threadfence();
  return last;
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

// What CUDA C++ has beyond C++, for g++: put in front of each kernel's source by
// the emulated NVRTC. Not compiled into any program.

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace kiln_emulator {

inline const Host* host = nullptr;
inline thread_local Dim thread_place, block_place, block_extent, grid_extent;
inline thread_local char anchor;

template <class T>
uint64_t Bits(T value) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T Of(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof(T));
  return value;
}

// Calls a kernel with its parameters as the driver gets them: the address of each.
template <class... P>
struct Call {
  template <int N, int... I>
  struct Count : Count<N - 1, N - 1, I...> {};
  template <int... I>
  struct Count<0, I...> {
    static void Do(void (*kernel)(P...), void** parameters) {
      kernel(*(P*)parameters[I]...);
    }
  };
};
template <class... P>
void CallKernel(void (*kernel)(P...), void** parameters) {
  Call<P...>::template Count<sizeof...(P)>::Do(kernel, parameters);
}

// --- Shared memory's addresses have 32 bits: the block of the cluster (0: one's
// own), whether the memory is dynamic, and the distance from its beginning.
constexpr unsigned kRankShift = 25, kDynamic = 1u << 24, kMiddle = 1u << 23;

inline unsigned SharedAddress(const void* p) {
  const long long from_dynamic = (const char*)p - host->dynamic_shared();
  if (from_dynamic >= 0 && from_dynamic < 227 << 10)
    return kDynamic | (unsigned)from_dynamic;
  return (unsigned)((const char*)p - &anchor + kMiddle);
}
inline char* SharedPointer(unsigned address) {
  const unsigned rank = address >> kRankShift;
  const unsigned place = address & (kDynamic - 1);
  if (address & kDynamic) {
    return (rank == 0 ? host->dynamic_shared()
                      : host->dynamic_shared_of(rank - 1)) +
           place;
  }
  return (rank == 0 ? &anchor : host->anchor_of(rank - 1)) +
         ((long long)place - (long long)kMiddle);
}

// --- Half types, rounded to nearest even.
inline float OfBf16(unsigned short x) { return Of<float>((uint64_t)x << 16); }
inline unsigned short ToBf16(float x) {
  const unsigned bits = (unsigned)Bits(x);
  if (x != x) return 0x7fff;
  return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float OfF16(unsigned short x) { return (float)Of<_Float16>(x); }
inline unsigned short ToF16(float x) {
  return x != x ? 0x7fff : (unsigned short)Bits((_Float16)x);
}
inline unsigned Pair(unsigned short high, unsigned short low) {
  return (unsigned)high << 16 | low;
}
inline float Flushed(float x) { return fabsf(x) < 0x1p-126f ? 0.0f * x : x; }

inline void AddBf16Pair(unsigned* to, unsigned x) {
  *to = Pair(ToBf16(OfBf16(*to >> 16) + OfBf16(x >> 16)),
             ToBf16(OfBf16((unsigned short)*to) + OfBf16((unsigned short)x)));
}
inline void AddF16Pair(unsigned* to, unsigned x) {
  *to = Pair(ToF16(OfF16(*to >> 16) + OfF16(x >> 16)),
             ToF16(OfF16((unsigned short)*to) + OfF16((unsigned short)x)));
}

// --- PTX: a function for each instruction, named as it is with _ for other
// characters, of the operands of its asm statement.
namespace ptx {
inline void griddepcontrol_wait() {}
template <class T>
void nothing(T&) {}
inline void cp_async_cg_shared_global(unsigned to, const void* from) {
  host->copy_later(SharedPointer(to), from, 16);
}
inline void cp_async_ca_shared_global(unsigned to, const void* from,
                                      int bytes) {
  host->copy_later(SharedPointer(to), from, bytes);
}
// Of a source with fewer bytes the rest is 0.
inline const char kZeros[16] = {};
inline void cp_async_cg_shared_global(unsigned to, const void* from,
                                      int bytes) {
  if (bytes != 0 && bytes != 16) host->fail("a copy of part of 16 bytes");
  host->copy_later(SharedPointer(to), bytes == 0 ? kZeros : from, 16);
}
inline void cp_async_commit_group() { host->end_batch(); }
inline void cp_async_wait_group(int n) { host->wait_for_batches(n); }
inline void cvt_rn_bf16x2_f32(unsigned& to, float high, float low) {
  to = Pair(ToBf16(high), ToBf16(low));
}
inline void cvt_rn_f16x2_f32(unsigned& to, float high, float low) {
  to = Pair(ToF16(high), ToF16(low));
}
inline void cvt_rn_bf16_f32(unsigned short& to, float x) { to = ToBf16(x); }
inline void cvt_rn_f16_f32(unsigned short& to, float x) { to = ToF16(x); }
inline void cvt_f32_f16(float& to, unsigned short x) { to = OfF16(x); }
inline void div_full_f32(float& to, float a, float b) { to = a / b; }
inline void rcp_approx_ftz_f32(float& to, float x) {
  to = Flushed(1.0f / Flushed(x));
}
inline void ex2_approx_ftz_f32(float& to, float x) {
  to = Flushed(exp2f(Flushed(x)));
}
inline void sqrt_approx_f32(float& to, float x) { to = sqrtf(x); }
inline void max_NaN_f32(float& to, float a, float b) {
  to = a != a || b != b ? __builtin_nanf("") : fmaxf(a, b);
}
inline void min_NaN_f32(float& to, float a, float b) {
  to = a != a || b != b ? __builtin_nanf("") : fminf(a, b);
}
template <class... F>
void AddFloats(float* to, F... x) {
  ((*to++ += x), ...);
}
inline void red_global_add_v4_f32(float* to, float a, float b, float c,
                                  float d) {
  AddFloats(to, a, b, c, d);
}
inline void red_global_add_v2_f32(float* to, float a, float b) {
  AddFloats(to, a, b);
}
template <class... U>
void red_global_add_noftz_v4_bf16x2(unsigned short* to, U... x) {
  unsigned* words = (unsigned*)to;
  (AddBf16Pair(words++, x), ...);
}
template <class... U>
void red_global_add_noftz_v4_f16x2(unsigned short* to, U... x) {
  unsigned* words = (unsigned*)to;
  (AddF16Pair(words++, x), ...);
}
inline void red_global_add_noftz_bf16x2(unsigned short* to, unsigned x) {
  AddBf16Pair((unsigned*)to, x);
}
inline void red_global_add_noftz_f16x2(unsigned short* to, unsigned x) {
  AddF16Pair((unsigned*)to, x);
}
inline void barrier_cluster_arrive_release_aligned() { host->sync_cluster(); }
inline void mapa_shared__cluster_u32(unsigned& to, unsigned here,
                                     unsigned rank) {
  to = (here & ((1u << kRankShift) - 1)) | (rank + 1) << kRankShift;
}
inline void ld_shared__cluster_u32(unsigned& to, unsigned from) {
  memcpy(&to, SharedPointer(from), 4);
}

// Matrices of 8 by 8 halves: lane 8 i + r gives the address of row r of matrix i,
// and lane l gets two neighbours of row l / 4.
inline unsigned Lane() {
  return (thread_place.x +
          block_extent.x * (thread_place.y + block_extent.y * thread_place.z)) %
         32;
}
inline unsigned OfLane(unsigned x, unsigned lane) {
  return (unsigned)host->shuffle(Shuffle::kIndex, x, (int)lane, 32);
}
template <bool kTransposed>
void LoadMatrices(unsigned (&to)[4], unsigned address) {
  const unsigned row = Lane() / 4, column = Lane() % 4 * 2;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned short x[2];
    for (unsigned j = 0; j < 2; ++j) {
      const unsigned r = kTransposed ? column + j : row;
      const unsigned c = kTransposed ? row : column + j;
      const unsigned at = OfLane(address, 8 * i + r);
      if (at % 16 != 0) host->fail("a row of a matrix that is not aligned");
      memcpy(&x[j], SharedPointer(at) + 2 * c, 2);
    }
    to[i] = Pair(x[1], x[0]);
  }
  host->sync_warp();
}
inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(unsigned& a, unsigned& b,
                                                     unsigned& c, unsigned& d,
                                                     unsigned address) {
  unsigned to[4];
  LoadMatrices<false>(to, address);
  a = to[0], b = to[1], c = to[2], d = to[3];
}
inline void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(
    unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned address) {
  unsigned to[4];
  LoadMatrices<true>(to, address);
  a = to[0], b = to[1], c = to[2], d = to[3];
}

// c[16, 8] += a[16, 16] @ b[16, 8], laid out over a warp as the PTX ISA has it
// ("Matrix Fragments for mma.m16n8k16").
template <float (*kValue)(unsigned short)>
void Multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  const unsigned row = Lane() / 4, column = Lane() % 4 * 2;
  float x[2][16], y[2][16];
  const auto take = [](float* to, unsigned pair) {
    to[0] = kValue((unsigned short)pair);
    to[1] = kValue((unsigned short)(pair >> 16));
  };
  for (unsigned k = 0; k < 16; k += 2) {
    const unsigned place = k % 8 / 2, upper = k / 8;
    for (unsigned half = 0; half < 2; ++half) {
      // Each lane is asked for the register that the asking lane needs.
      take(&x[half][k], OfLane(a[2 * upper + half], 4 * row + place));
      take(&y[half][k], OfLane(b[upper], 4 * (column + half) + place));
    }
  }
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = 0; k < 16; ++k) c[i] += x[i / 2][k] * y[i % 2][k];
}
inline void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(
    float& c0, float& c1, float& c2, float& c3, unsigned a0, unsigned a1,
    unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  float c[4] = {c0, c1, c2, c3};
  Multiply<OfBf16>(c, {a0, a1, a2, a3}, {b0, b1});
  c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
}
inline void mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(
    float& c0, float& c1, float& c2, float& c3, unsigned a0, unsigned a1,
    unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  float c[4] = {c0, c1, c2, c3};
  Multiply<OfF16>(c, {a0, a1, a2, a3}, {b0, b1});
  c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
}
}  // namespace ptx
}  // namespace kiln_emulator

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __shared__ static thread_local

#define threadIdx kiln_emulator::thread_place
#define blockIdx kiln_emulator::block_place
#define blockDim kiln_emulator::block_extent
#define gridDim kiln_emulator::grid_extent

inline void __syncthreads() { kiln_emulator::host->sync_block(); }
inline int __syncthreads_or(int asked) {
  static thread_local int any;  // as shared memory
  __syncthreads();
  if (threadIdx.x == 0) any = 0;
  __syncthreads();
  if (asked != 0) any = 1;
  __syncthreads();
  return any;
}
inline void __syncwarp(unsigned = ~0u) { kiln_emulator::host->sync_warp(); }
inline void __threadfence() {}

template <class T>
T __shfl_xor_sync(unsigned, T x, int distance, int width = 32) {
  using namespace kiln_emulator;
  return Of<T>(host->shuffle(Shuffle::kXor, Bits(x), distance, width));
}
template <class T>
T __shfl_up_sync(unsigned, T x, int distance, int width = 32) {
  using namespace kiln_emulator;
  return Of<T>(host->shuffle(Shuffle::kUp, Bits(x), distance, width));
}
template <class T>
T __shfl_sync(unsigned, T x, int lane, int width = 32) {
  using namespace kiln_emulator;
  return Of<T>(host->shuffle(Shuffle::kIndex, Bits(x), lane, width));
}
inline unsigned __ballot_sync(unsigned, int asked) {
  unsigned all = (unsigned)(asked != 0) << threadIdx.x % 32;
  for (int distance = 1; distance < 32; distance *= 2)
    all |= __shfl_xor_sync(~0u, all, distance);
  return all;
}
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
template <class T>
T __ldcs(const T* p) {
  return *p;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
// Of the bytes of y and x the four that the digits of `places` name.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned places) {
  const unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned to = 0;
  for (int b = 0; b < 4; ++b)
    to |= (unsigned)(bytes >> (places >> 4 * b & 7) * 8 & 0xff) << 8 * b;
  return to;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((unsigned long long)a * b >> 32);
}

inline unsigned __float_as_uint(float x) {
  return (unsigned)kiln_emulator::Bits(x);
}
inline int __float_as_int(float x) { return (int)kiln_emulator::Bits(x); }
inline float __uint_as_float(unsigned x) { return kiln_emulator::Of<float>(x); }
inline long long __double_as_longlong(double x) {
  return (long long)kiln_emulator::Bits(x);
}
inline double __longlong_as_double(long long x) {
  return kiln_emulator::Of<double>((uint64_t)x);
}
inline __SIZE_TYPE__ __cvta_generic_to_shared(const void* p) {
  return kiln_emulator::SharedAddress(p);
}

template <class T>
T atomicAdd(T* p, T x) {
  const T old = *p;
  *p = old + x;
  return old;
}
template <class T>
T atomicMax(T* p, T x) {
  const T old = *p;
  if (x > old) *p = x;
  return old;
}
template <class T>
T atomicCAS(T* p, T seen, T x) {
  const T old = *p;
  if (old == seen) *p = x;
  return old;
}
inline unsigned atomicInc(unsigned* p, unsigned last) {
  const unsigned old = *p;
  *p = old >= last ? 0 : old + 1;
  return old;
}

extern "C" inline void __assertfail(const char* message, const char*, unsigned,
                                    const char*, unsigned long) {
  kiln_emulator::host->fail(message);
}
inline void __trap() { kiln_emulator::host->fail("trap"); }
// Only of a thread that waits for another to stop the grid.
inline void __nanosleep(unsigned) { kiln_emulator::host->fail("asleep"); }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

extern "C" void kiln_emulator_enter(const kiln_emulator::Host* h,
                                    kiln_emulator::Place* place) {
  using namespace kiln_emulator;
  host = h;
  *place = {&thread_place, &block_place, &block_extent, &grid_extent, &anchor};
}

#ifndef KILN_TESTS_FUZZ_SEED_PLAN_H_
#define KILN_TESTS_FUZZ_SEED_PLAN_H_

namespace kiln {

// A plan with everything that a plan can say, but for host calls and regions.
inline constexpr char kSeedPlan[] =
    R"(launch_plan (s0 in [1, 64] from size 0 0, s1 "rows" in [0, 8] from step, s2 in [-1, 9] from scalar 1 0) {
  input f32 [s0, 4] strides [4, 1] offset 0 cpu align 16 mutated
  input scalar s2
  buffer b0 "x" input 0 bytes 16*s0
  buffer b1 "buf1" arena bytes 64 offset 64
  buffer b2 "y" output bytes 64
  buffer b3 "c" constant 0 bytes 8
  kernel k0 kiln_poi_fused_add_5f0c label kiln_poi_fused_add_0 module 0
    from [add, _to_copy] reads 16*s0 writes 16*(s0 + -1)
    | kernel kiln_poi_fused_add_0 {
    |   nest "add"
    | }
    |
  launch k0 grid [floordiv(s0 + 255, 256), 1, 1] block [256, 1, 1] args [b0, b1 at 4*s1, seed, seed_slot, s0*4 + mod(s0, 3)] shared 64 cluster 2 programmatic_dependent_launch blocks_per_multiprocessor 32
  extern addmm (b0 f32 [4, s0] strides [1, 4] offset 0; b1 f32 [4, 4] strides [4, 1] offset 0) -> (b2 f32 [4, 4] strides [4, 1] offset 0) alpha=float 0.1 beta=-3 activation="" stride=[s0, 1]
  copy b1 f32 [16] strides [1] offset 0 -> b2 f32 [16] strides [1] offset 0
  fill b2 bf16 [2] strides [1] offset 1 bits 16256
  assert s0 < 7 and not(s1 == max(s0, 2)) or s2 <= 1 "a \"message\"\n"
  bind s1 = s0*(s0 + (s2 + 1))
  output view b2 f32 [4, 4] strides [4, 1] offset 0
  output sym s0 + 1
  output none
  arena 128 bytes, peak live 128
}
)";

}  // namespace kiln

#endif  // KILN_TESTS_FUZZ_SEED_PLAN_H_

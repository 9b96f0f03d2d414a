#include "runtime/cuda_dense_copies.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace kiln {
namespace {

constexpr absl::string_view kHead = R"(.version 7.0
.target sm_70
.address_size 64
)";

// A search by halves finds the last run that begins no later than this block; then
// this block's piece of it, and loops over that: of 16 bytes a thread, of 4, and of
// single ones for what is left. Offsets in the argument: count 0, of run i at
// 32 * i: from 8, to 16, bytes 24, first_block 32.
constexpr absl::string_view kKernel = R"(
.visible .entry NAME(.param .align 8 .b8 arg[BYTES])
{
  .reg .pred %p<2>;
  .reg .b16 %h<1>;
  .reg .b32 %r<12>;
  .reg .b64 %d<12>;

  mov.u32 %r0, %ctaid.x;
  cvt.u64.u32 %d0, %r0;
  mov.u64 %d1, arg;
  mov.u32 %r1, 0;
  ld.param.u32 %r2, [arg];
search:
  sub.u32 %r3, %r2, %r1;
  setp.le.u32 %p0, %r3, 1;
  @%p0 bra found;
  add.u32 %r3, %r1, %r2;
  shr.u32 %r3, %r3, 1;
  mul.wide.u32 %d2, %r3, 32;
  add.u64 %d2, %d2, %d1;
  ld.param.u64 %d3, [%d2+32];
  setp.le.u64 %p0, %d3, %d0;
  selp.b32 %r1, %r3, %r1, %p0;
  selp.b32 %r2, %r2, %r3, %p0;
  bra search;

found:
  mul.wide.u32 %d2, %r1, 32;
  add.u64 %d2, %d2, %d1;
  ld.param.u64 %d4, [%d2+8];
  ld.param.u64 %d5, [%d2+16];
  ld.param.u64 %d6, [%d2+24];
  ld.param.u64 %d7, [%d2+32];
  sub.u64 %d7, %d0, %d7;
  mul.lo.u64 %d7, %d7, PIECE;
  sub.u64 %d6, %d6, %d7;
  min.u64 %d6, %d6, PIECE;
  cvt.u32.u64 %r4, %d6;
  add.u64 %d4, %d4, %d7;
  add.u64 %d5, %d5, %d7;
  cvta.to.global.u64 %d4, %d4;
  cvta.to.global.u64 %d5, %d5;
  or.b64 %d7, %d4, %d5;
  mov.u32 %r5, %tid.x;
  mov.u32 %r6, 0;

  and.b64 %d8, %d7, 15;
  setp.ne.u64 %p0, %d8, 0;
  @%p0 bra by_4;
  and.b32 %r6, %r4, -16;
  mul.lo.u32 %r7, %r5, 16;
next_16:
  setp.ge.u32 %p0, %r7, %r6;
  @%p0 bra rest;
  cvt.u64.u32 %d9, %r7;
  add.u64 %d10, %d4, %d9;
  add.u64 %d11, %d5, %d9;
  ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%d10];
  st.global.v4.u32 [%d11], {%r8, %r9, %r10, %r11};
  add.u32 %r7, %r7, 16 * THREADS;
  bra next_16;

by_4:
  and.b64 %d8, %d7, 3;
  setp.ne.u64 %p0, %d8, 0;
  @%p0 bra rest;
  and.b32 %r6, %r4, -4;
  mul.lo.u32 %r7, %r5, 4;
next_4:
  setp.ge.u32 %p0, %r7, %r6;
  @%p0 bra rest;
  cvt.u64.u32 %d9, %r7;
  add.u64 %d10, %d4, %d9;
  add.u64 %d11, %d5, %d9;
  ld.global.u32 %r8, [%d10];
  st.global.u32 [%d11], %r8;
  add.u32 %r7, %r7, 4 * THREADS;
  bra next_4;

rest:
  add.u32 %r7, %r6, %r5;
next_1:
  setp.ge.u32 %p0, %r7, %r4;
  @%p0 bra done;
  cvt.u64.u32 %d9, %r7;
  add.u64 %d10, %d4, %d9;
  add.u64 %d11, %d5, %d9;
  ld.global.u8 %h0, [%d10];
  st.global.u8 [%d11], %h0;
  add.u32 %r7, %r7, THREADS;
  bra next_1;
done:
  ret;
}
)";

std::string Kernel(absl::string_view name, size_t argument_bytes) {
  return absl::StrReplaceAll(kKernel,
                             {{"NAME", name},
                              {"BYTES", absl::StrCat(argument_bytes)},
                              {"PIECE", absl::StrCat(kDenseCopiesPiece)},
                              {"THREADS", absl::StrCat(kDenseCopiesThreads)}});
}

}  // namespace

std::string DenseCopiesPtx() {
  return absl::StrCat(kHead,
                      Kernel(kFewDenseCopiesName, sizeof(FewDenseCopies)),
                      Kernel(kManyDenseCopiesName, sizeof(ManyDenseCopies)));
}

}  // namespace kiln

#include "runtime/cuda_copy_kernel.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

// A grid-stride loop. For each element number the dimensions are peeled off
// from the innermost, written out one by one: place = rest % size,
// rest /= size. Offsets in the
// argument: from 0, to 8, count 16, element_bytes 24, sizes 32, from_strides
// 80, to_strides 128.
const char kStridedCopyPtx[] = R"(.version 7.0
.target sm_70
.address_size 64

.visible .entry kiln_strided_copy(.param .align 8 .b8 arg[176])
{
  .reg .pred %p<8>;
  .reg .b16 %h<2>;
  .reg .b32 %r<8>;
  .reg .b64 %d<32>;

  ld.param.u64 %d1, [arg];
  ld.param.u64 %d2, [arg+8];
  ld.param.u64 %d3, [arg+16];
  ld.param.u64 %d4, [arg+24];
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  mov.u32 %r0, %ntid.x;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %nctaid.x;
  mov.u32 %r3, %tid.x;
  mul.wide.u32 %d5, %r1, %r0;
  cvt.u64.u32 %d6, %r3;
  add.u64 %d5, %d5, %d6;
  mul.wide.u32 %d7, %r2, %r0;

next_element:
  setp.ge.s64 %p0, %d5, %d3;
  @%p0 bra done;
  mov.u64 %d8, %d5;
  mov.u64 %d9, 0;
  mov.u64 %d10, 0;

  ld.param.u64 %d12, [arg+72];
  ld.param.u64 %d13, [arg+120];
  ld.param.u64 %d14, [arg+168];
  div.u64 %d15, %d8, %d12;
  mul.lo.u64 %d16, %d15, %d12;
  sub.u64 %d16, %d8, %d16;
  mov.u64 %d8, %d15;
  mul.lo.s64 %d13, %d13, %d16;
  add.s64 %d9, %d9, %d13;
  mul.lo.s64 %d14, %d14, %d16;
  add.s64 %d10, %d10, %d14;

  ld.param.u64 %d12, [arg+64];
  ld.param.u64 %d13, [arg+112];
  ld.param.u64 %d14, [arg+160];
  div.u64 %d15, %d8, %d12;
  mul.lo.u64 %d16, %d15, %d12;
  sub.u64 %d16, %d8, %d16;
  mov.u64 %d8, %d15;
  mul.lo.s64 %d13, %d13, %d16;
  add.s64 %d9, %d9, %d13;
  mul.lo.s64 %d14, %d14, %d16;
  add.s64 %d10, %d10, %d14;

  ld.param.u64 %d12, [arg+56];
  ld.param.u64 %d13, [arg+104];
  ld.param.u64 %d14, [arg+152];
  div.u64 %d15, %d8, %d12;
  mul.lo.u64 %d16, %d15, %d12;
  sub.u64 %d16, %d8, %d16;
  mov.u64 %d8, %d15;
  mul.lo.s64 %d13, %d13, %d16;
  add.s64 %d9, %d9, %d13;
  mul.lo.s64 %d14, %d14, %d16;
  add.s64 %d10, %d10, %d14;

  ld.param.u64 %d12, [arg+48];
  ld.param.u64 %d13, [arg+96];
  ld.param.u64 %d14, [arg+144];
  div.u64 %d15, %d8, %d12;
  mul.lo.u64 %d16, %d15, %d12;
  sub.u64 %d16, %d8, %d16;
  mov.u64 %d8, %d15;
  mul.lo.s64 %d13, %d13, %d16;
  add.s64 %d9, %d9, %d13;
  mul.lo.s64 %d14, %d14, %d16;
  add.s64 %d10, %d10, %d14;

  ld.param.u64 %d12, [arg+40];
  ld.param.u64 %d13, [arg+88];
  ld.param.u64 %d14, [arg+136];
  div.u64 %d15, %d8, %d12;
  mul.lo.u64 %d16, %d15, %d12;
  sub.u64 %d16, %d8, %d16;
  mov.u64 %d8, %d15;
  mul.lo.s64 %d13, %d13, %d16;
  add.s64 %d9, %d9, %d13;
  mul.lo.s64 %d14, %d14, %d16;
  add.s64 %d10, %d10, %d14;

  ld.param.u64 %d12, [arg+32];
  ld.param.u64 %d13, [arg+80];
  ld.param.u64 %d14, [arg+128];
  div.u64 %d15, %d8, %d12;
  mul.lo.u64 %d16, %d15, %d12;
  sub.u64 %d16, %d8, %d16;
  mov.u64 %d8, %d15;
  mul.lo.s64 %d13, %d13, %d16;
  add.s64 %d9, %d9, %d13;
  mul.lo.s64 %d14, %d14, %d16;
  add.s64 %d10, %d10, %d14;

  mul.lo.s64 %d9, %d9, %d4;
  mul.lo.s64 %d10, %d10, %d4;
  add.s64 %d9, %d9, %d1;
  add.s64 %d10, %d10, %d2;
  setp.eq.u64 %p2, %d4, 4;
  @%p2 bra copy_4;
  setp.eq.u64 %p3, %d4, 2;
  @%p3 bra copy_2;
  setp.eq.u64 %p4, %d4, 8;
  @%p4 bra copy_8;
  ld.global.u8 %h0, [%d9];
  st.global.u8 [%d10], %h0;
  bra advance;
copy_2:
  ld.global.u16 %h0, [%d9];
  st.global.u16 [%d10], %h0;
  bra advance;
copy_4:
  ld.global.u32 %r4, [%d9];
  st.global.u32 [%d10], %r4;
  bra advance;
copy_8:
  ld.global.u64 %d20, [%d9];
  st.global.u64 [%d10], %d20;
advance:
  add.u64 %d5, %d5, %d7;
  bra next_element;
done:
  ret;
}
)";

absl::StatusOr<StridedCopyArgument> StridedCopyArgument::Of(
    const StridedView& from, const StridedView& to) {
  struct Dim {
    int64_t size, from, to;
  };
  std::vector<Dim> dims;  // the outermost first
  for (size_t i = 0; i < from.sizes.size(); ++i) {
    const Dim dim{from.sizes[i], from.strides[i], to.strides[i]};
    if (dim.size == 1) continue;
    if (!dims.empty() && dims.back().from == dim.size * dim.from &&
        dims.back().to == dim.size * dim.to) {
      dims.back() = {dims.back().size * dim.size, dim.from, dim.to};
    } else {
      dims.push_back(dim);
    }
  }
  if (dims.size() > kRank) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat("copy of ", dims.size(), " dimensions, ",
                                  kRank, " at most"));
  }
  StridedCopyArgument argument;
  argument.from = from.data;
  argument.to = to.data;
  argument.element_bytes = from.element_bytes;
  size_t place = kRank - dims.size();
  for (const Dim& dim : dims) {
    argument.count *= dim.size;
    argument.sizes[place] = dim.size;
    argument.from_strides[place] = dim.from;
    argument.to_strides[place] = dim.to;
    ++place;
  }
  return argument;
}

bool StridedCopyArgument::dense() const {
  return count == 1 ||
         (sizes[kRank - 1] == count && from_strides[kRank - 1] == 1 &&
          to_strides[kRank - 1] == 1);
}

}  // namespace kiln

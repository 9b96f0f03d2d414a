// How attention's kernels are mapped: what is chosen is what their code takes.
#include "compiler/schedule/flash_kernel.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/config/target.h"

namespace kiln {
namespace {

using Part = FlashKernel::Part;

FlashKernel KernelOf(Part part, int64_t width, int64_t value_width) {
  FlashKernel kernel = {.part = part};
  kernel.attention.backward = part != Part::kForward;
  kernel.attention.extents = {1, 1, 1, 1, 1, width, value_width};
  return kernel;
}

TEST(FlashKernel, FitsABlockOfEveryTarget) {
  constexpr int kWidthStep = 8, kWidest = 256;
  for (const absl::string_view name :
       {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a"}) {
    const Target target = *TargetFromName(name);
    const int64_t room =
        target.shared_bytes_per_multiprocessor - kSharedOfBlock;
    for (const Part part :
         {Part::kForward, Part::kQueryGrad, Part::kKeyGrads}) {
      for (int e = kWidthStep; e <= kWidest; e += kWidthStep) {
        for (int v = kWidthStep; v <= kWidest; v += kWidthStep) {
          SCOPED_TRACE(absl::StrCat(name, " ", PartName(part), " ", e, " ", v));
          const FlashKernel kernel = KernelOf(part, e, v);
          const CudaFlash found = ChooseFlash(kernel, target);
          ASSERT_LE(SharedBytesOf(kernel, found), room);
          // Tensor cores multiply 16 columns; the sums of 64 queries are written.
          ASSERT_GE(found.warps, 1);
          ASSERT_GE(found.columns, 16);
          ASSERT_EQ(64 % found.columns, 0);
          if (part != Part::kQueryGrad) continue;
          const int rows = found.warps * found.tiles * 16;
          ASSERT_TRUE(rows == 64 || rows == 128) << rows;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kiln

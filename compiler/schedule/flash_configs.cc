#include "compiler/schedule/flash_configs.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/schedule/size_class.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

using Part = FlashKernel::Part;

// The most results that a thread holds: half of its registers; more for the gradients of
// keys and values where a warp has whole rows, since they need few other registers.
constexpr int64_t kMostSums = 128;
constexpr int64_t kMostSumsOfKeys = 192;
// Blocks of fewer rows read the columns too often.
constexpr int kLeastRows = 32;

int64_t ExtentOf(const FlashKernel& kernel, Attention::Axis axis) {
  return kernel.attention.extents[axis].constant();
}

// A thread has a 32nd of its warp's part of 16 rows for each tile.
int64_t Sums(const CudaFlash& v, int64_t width) {
  return v.tiles * width / v.sides / 2;
}

bool FitsRegisters(const FlashKernel& kernel, const CudaFlash& v) {
  const int64_t e = ExtentOf(kernel, Attention::kE);
  const int64_t value = ExtentOf(kernel, Attention::kV);
  switch (kernel.part) {
    case Part::kForward:
      return v.sides == 1 && Sums(v, value) <= kMostSums;
    case Part::kQueryGrad:
      return v.sides == 1 && Sums(v, e) <= kMostSums;
    case Part::kKeyGrads:
      // With half as many sides the results would not fit.
      return v.sides == 1 ? Sums(v, e + value) <= kMostSumsOfKeys
                          : Sums(v, e + value) <= kMostSums &&
                                Sums(v, e + value) > kMostSums / 2;
  }
  return false;
}

// Scores, results and rows that are held, but for what else a thread needs.
constexpr int64_t kMostHeld = 192;

// Whether a warp's rows fit beside what they are multiplied to.
bool CanHold(const FlashKernel& kernel, const CudaFlash& v) {
  const int64_t e = ExtentOf(kernel, Attention::kE);
  const int64_t value = ExtentOf(kernel, Attention::kV);
  const int64_t scores = Sums(v, v.columns);
  // Two halves are a register.
  switch (kernel.part) {
    case Part::kForward:
      return Sums(v, value) + scores + Sums(v, e) / 2 <= kMostHeld;
    case Part::kQueryGrad:
      return Sums(v, e) + 2 * scores + Sums(v, e + value) / 2 <= kMostHeld;
    case Part::kKeyGrads:
      return v.sides == 1 &&
             Sums(v, e + value) + 2 * scores + Sums(v, e + value) / 2 <=
                 kMostHeld;
  }
  return false;
}

bool Fits(const FlashKernel& kernel, const CudaFlash& v, const Target& target) {
  return (v.held == 0 || CanHold(kernel, v)) && v.columns >= 16 * v.sides &&
         PointsOfBlock(v) >= kLeastRows && PointsOfBlock(v) <= kMostFlashRows &&
         FitsRegisters(kernel, v) &&
         SharedBytesOf(kernel, v) <=
             target.shared_bytes_per_multiprocessor - kSharedOfBlock;
}

std::string WorkOf(const FlashKernel& kernel) {
  return absl::StrCat("flash_", PartName(kernel.part));
}

std::string DigestOf(const FlashKernel& kernel, const ShapeEnv& shapes,
                     const Target& target) {
  const Attention& a = kernel.attention;
  const auto& bias = a.arrays[Attention::kBias];
  Sha256 sha;
  // The version rises when the kernels of equal words come to do other work.
  sha.AddField("kiln flash kernels 3").AddField(target.name);
  sha.AddField(PartName(kernel.part));
  sha.AddNumber(static_cast<uint64_t>(a.at(Attention::kQuery).dtype));
  for (const SymExpr& extent : a.extents)
    sha.AddField(SizeText(extent, shapes));
  sha.AddField(CausalName(a.causal));
  sha.AddNumber(static_cast<uint64_t>(a.window));
  sha.AddNumber(bias.has_value() ? 1 + static_cast<uint64_t>(bias->dtype) : 0);
  sha.AddNumber(a.dropout > 0);
  return sha.Finish().Hex().substr(0, kDigestDigits);
}

}  // namespace

std::vector<CudaFlash> FlashConfigs(const FlashKernel& kernel,
                                    const Target& target) {
  std::vector<CudaFlash> configs = {ChooseFlash(kernel, target)};
  for (const int warps : {4, 8}) {
    for (const int tiles : {1, 2}) {
      for (const int columns : {32, 64}) {
        for (const int sides : {1, 2, 4}) {
          for (const int held : {0, 1}) {
            const CudaFlash v = {warps, tiles, columns, sides, held};
            if (v != configs[0] && Fits(kernel, v, target))
              configs.push_back(v);
          }
        }
      }
    }
  }
  return configs;
}

absl::StatusOr<CudaFlash> FindFlash(const FlashKernel& kernel,
                                    const Target& target,
                                    absl::string_view text) {
  for (const CudaFlash& v : FlashConfigs(kernel, target))
    if (ToText(KernelVariant(v)) == text) return v;
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat(WorkOf(kernel), ": no mapping of it is \"",
                                absl::CEscape(text), "\""));
}

std::string TuningKey(const FlashKernel& kernel, const ShapeEnv& shapes,
                      const Target& target) {
  if (FlashConfigs(kernel, target).size() < 2) return "";
  const Attention& a = kernel.attention;
  std::string sizes;
  for (const Attention::Axis axis :
       {Attention::kB, Attention::kH, Attention::kM, Attention::kN,
        Attention::kE}) {
    absl::StrAppend(&sizes, sizes.empty() ? "" : "x",
                    SizeText(a.extents[axis], shapes));
  }
  return absl::StrCat(WorkOf(kernel), "/",
                      ShortName(a.at(Attention::kQuery).dtype), "/", sizes, "/",
                      DigestOf(kernel, shapes, target), "/", target.name);
}

FlashChoice DecideFlash(const FlashKernel& kernel, const ShapeEnv& shapes,
                        const Target& target, const TuningTable& tuning) {
  FlashChoice choice;
  choice.variant = ChooseFlash(kernel, target);
  choice.key = TuningKey(kernel, shapes, target);
  const auto found = tuning.find(choice.key);
  if (choice.key.empty() || found == tuning.end()) return choice;
  choice.decision = found->second;
  const absl::StatusOr<CudaFlash> tuned =
      FindFlash(kernel, target, choice.decision);
  if (tuned.ok()) {
    choice.variant = *tuned;
  } else {
    choice.ignored = std::string(tuned.status().message());
  }
  return choice;
}

std::string ToText(const FlashKernel& kernel, const FlashChoice& choice) {
  std::string out = absl::StrCat("kernel ", WorkOf(kernel), "\n");
  if (!choice.key.empty()) absl::StrAppend(&out, "  key ", choice.key, "\n");
  if (!choice.ignored.empty()) {
    absl::StrAppend(&out, "  ignored: ", choice.ignored, "\n");
  } else if (!choice.decision.empty()) {
    absl::StrAppend(&out, "  tuned: ", choice.decision, "\n");
  }
  return absl::StrCat(out, "* ", ToText(KernelVariant(choice.variant)), "\n");
}

}  // namespace kiln

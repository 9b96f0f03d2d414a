#include "compiler/codegen/cuda_flash.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/c_writer.h"
#include "compiler/codegen/index_text.h"
#include "compiler/codegen/kernel_body.h"
#include "compiler/codegen/kernel_names.h"
#include "compiler/sym/sym_simplify.h"

namespace kiln {
namespace {

using Part = FlashKernel::Part;

constexpr double kLog2E = 1.4426950408889634;
// No length is longer (a kernel counts rows in 32 bits), so no window need be.
constexpr int64_t kLongest = int64_t{1} << 30;

// A weight draws one of as many numbers.
constexpr double kDrawnNumbers = 65536;

// Those that drop it: the nearest to its share, and never all.
uint32_t DroppedNumbers(double dropout) {
  return static_cast<uint32_t>(
      std::min(std::round(dropout * kDrawnNumbers), kDrawnNumbers - 1));
}

std::string FloatText(double value) {
  return absl::StrFormat("%.9ef", static_cast<float>(value));
}

// Bits of a number of the bias; 0: there is none.
int BiasBits(const Attention& a) {
  if (!a.arrays[Attention::kBias].has_value()) return 0;
  return a.at(Attention::kBias).dtype == DType::kFloat32 ? 32 : 16;
}

class FlashWriter {
 public:
  FlashWriter(const FlashKernel& kernel, const CudaFlash& variant,
              const ShapeEnv& shapes, const Target& target)
      : kernel_(kernel), a_(kernel.attention), v_(variant), shapes_(shapes) {
    source_.waits_for_work_before = target.dependent_launch;
  }

  KernelSource Write() {
    NoteSymbols();
    out_.Open("extern \"C\" __global__ void __launch_bounds__(", v_.warps * 32,
              ") ", kSymbolPlaceholder, "(", Parameters(), ")");
    if (source_.waits_for_work_before) out_.Line("k_wait_for_work_before();");
    for (size_t s = 0; s < symbols_.size(); ++s)
      out_.Line("const long long s", s, " = n", s, ";");
    Options();
    out_.Line("k_flash<attention> f;");
    Arrays();
    Numbers();
    out_.Line("k_flash_", PartName(kernel_.part), "(f);");
    out_.Close();
    source_.block[0] = static_cast<uint32_t>(v_.warps * 32);
    source_.grid = {Blocks(), 1, 1};
    source_.shared_bytes = static_cast<uint32_t>(SharedBytesOf(kernel_, v_));
    source_.text = out_.Take();
    source_.symbol = KernelSymbol(kernel_.label, source_.text);
    source_.text = absl::StrReplaceAll(source_.text,
                                       {{kSymbolPlaceholder, source_.symbol}});
    return std::move(source_);
  }

 private:
  void Note(const SymExpr& e) {
    e.VisitVars([&](Var var) {
      if (std::find(symbols_.begin(), symbols_.end(), var.index) ==
          symbols_.end())
        symbols_.push_back(var.index);
    });
  }
  void NoteSymbols() {
    for (const SymExpr& extent : a_.extents) Note(extent);
    VisitArrays(kernel_, [&](const View& view, bool) {
      for (const SymExpr& stride : view.strides) Note(stride);
      Note(view.offset);
    });
  }

  std::string Index(const SymExpr& e) const {
    const auto name_of = [&](Var var) {
      const auto at = std::find(symbols_.begin(), symbols_.end(), var.index);
      return absl::StrCat("s", at - symbols_.begin());
    };
    const auto not_negative = [&](const SymExpr& part) {
      return ProveNonNegative(part, {shapes_, {}});
    };
    return IndexText(e, {name_of, not_negative, false});
  }

  static absl::string_view TypeOf(size_t place, const Attention& a) {
    if (place == Attention::kSeed) return "long long";
    const DType dtype = a.arrays[place]->dtype;
    return dtype == DType::kFloat32 ? "float" : "unsigned short";
  }

  std::string Parameters() {
    using Kind = KernelParam::Kind;
    std::string params;
    const auto add = [&](const auto&... parts) {
      absl::StrAppend(&params, params.empty() ? "" : ", ", parts...);
    };
    for (size_t place = 0; place < Attention::kPlaces; ++place) {
      if (!kernel_.Touches(place)) continue;
      // Of k_flash's members those that some kernel writes are not const.
      const bool writable = kernel_.Writes(place) || place == Attention::kOut ||
                            place == Attention::kLogsumexp;
      add(writable ? "" : "const ", TypeOf(place, a_), "* p",
          source_.params.size());
      source_.params.push_back({Kind::kBuffer, a_.arrays[place]->buffer, 0});
    }
    if (kernel_.sums != kNoBuffer) {
      add("float* w");
      source_.params.push_back({Kind::kBuffer, kernel_.sums, 0});
    }
    for (size_t s = 0; s < symbols_.size(); ++s) {
      add("long long n", s);
      source_.params.push_back(
          {Kind::kScalar, 0, SymExpr::Symbol(symbols_[s])});
    }
    return params;
  }

  bool Drops() const { return a_.dropout > 0; }
  bool Folds() const { return BiasBits(a_) == 0 && a_.scale > 0; }

  void Options() {
    out_.Open("struct attention");
    out_.Line("using bias_type = ",
              BiasBits(a_) == 32 ? "float" : "unsigned short", ";");
    out_.Line("enum { kWarps = ", v_.warps, ", kTiles = ", v_.tiles,
              ", kColumns = ", v_.columns, ", kSides = ", v_.sides,
              ", kHeld = ", v_.held, " };");
    out_.Line(
        "enum { kWidth = ", a_.extents[Attention::kE].constant(),
        ", kValueWidth = ", a_.extents[Attention::kV].constant(), ", kBf16 = ",
        a_.at(Attention::kQuery).dtype == DType::kBFloat16 ? 1 : 0, " };");
    out_.Line(
        "enum { kCausal = ", a_.causal == Attention::Causal::kNone ? 0 : 1,
        ", kWindow = ", std::min(a_.window, kLongest),
        ", kBias = ", BiasBits(a_), ", kFolds = ", Folds() ? 1 : 0,
        ", kDrops = ", Drops() ? 1 : 0, " };");
    out_.Close(";");
  }

  void Arrays() {
    size_t param = 0;
    for (size_t place = 0; place < Attention::kPlaces; ++place) {
      if (!kernel_.Touches(place)) continue;
      const View& view = *a_.arrays[place];
      const std::string name = absl::StrCat("p", param++);
      if (place == Attention::kSeed) {
        out_.Line("f.seed = ", name, "[", Index(view.offset), "];");
        continue;
      }
      out_.Line("f.", PlaceName(place), " = ", name, " + ", Index(view.offset),
                ";");
      // In rows, one after the other.
      if (place == Attention::kLogsumexp) continue;
      constexpr absl::string_view kAxes[] = {"batch", "head", "row", "column"};
      const size_t axes = place == Attention::kBias ? 4 : 3;
      for (size_t d = 0; d < axes; ++d) {
        // What has one element needs no stride.
        const bool still = view.sizes[d].Is(1);
        out_.Line("f.", PlaceName(place), "_", kAxes[d], " = ",
                  still ? "0ll" : Index(view.strides[d]), ";");
      }
    }
    if (kernel_.sums != kNoBuffer) out_.Line("f.sums = w;");
    if (BiasBits(a_) == 0)
      for (const absl::string_view axis : {"batch", "head"})
        out_.Line("f.bias_", axis, " = 0;");
  }

  void Numbers() {
    const auto integer = [&](absl::string_view name, const SymExpr& value) {
      out_.Line("f.", name, " = (int)", Index(value), ";");
    };
    const SymExpr &m = a_.extents[Attention::kM],
                  &n = a_.extents[Attention::kN];
    integer("batches", a_.extents[Attention::kB]);
    integer("heads", a_.extents[Attention::kH]);
    integer("key_heads", a_.extents[Attention::kX]);
    integer("queries", m);
    integer("keys", n);
    integer("shift",
            a_.causal == Attention::Causal::kBottomRight ? n - m : SymExpr(0));
    out_.Line("f.padded_queries = ", Index(PaddedQueries(a_)), ";");
    out_.Line("f.scale = ", FloatText(a_.scale * kLog2E), ";");
    out_.Line("f.plain_scale = ", FloatText(a_.scale), ";");
    const uint32_t dropped = DroppedNumbers(a_.dropout);
    out_.Line("f.kept_scale = ",
              FloatText(kDrawnNumbers / (kDrawnNumbers - dropped)), ";");
    // In the upper half of a word.
    out_.Line("f.dropped = ", dropped << 16, "u;");
  }

  SymExpr Blocks() const {
    const bool keys = kernel_.part == Part::kKeyGrads;
    const SymExpr& rows = a_.extents[keys ? Attention::kN : Attention::kM];
    return CeilDiv(rows, int64_t{PointsOfBlock(v_)}) *
           a_.extents[keys ? Attention::kX : Attention::kH] *
           a_.extents[Attention::kB];
  }

  const FlashKernel& kernel_;
  const Attention& a_;
  const CudaFlash& v_;
  const ShapeEnv& shapes_;
  std::vector<uint32_t> symbols_;
  CWriter out_;
  KernelSource source_;
};

}  // namespace

absl::StatusOr<KernelSource> WriteFlashKernel(
    const FlashKernel& kernel, const std::vector<Buffer>& /*buffers*/,
    const ShapeEnv& shapes, const Target& target) {
  const auto* variant = std::get_if<CudaFlash>(&kernel.variant);
  if (variant == nullptr || target.kind != TargetKind::kCuda) {
    return absl::InternalError(absl::StrCat(
        "kernel ", kernel.label, ": found variant \"",
        VariantName(kernel.variant), "\", expected one for attention"));
  }
  return FlashWriter(kernel, *variant, shapes, target).Write();
}

}  // namespace kiln

#include "compiler/schedule/contraction_key.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "compiler/schedule/size_class.h"
#include "proto/base/digest.h"
#include "proto/base/tuned_line.h"

namespace kiln {
namespace {

class Digester {
 public:
  Digester(const std::vector<Buffer>& buffers, const ShapeEnv& shapes)
      : buffers_(buffers), shapes_(shapes) {}

  void Add(absl::string_view words) { sha_.AddField(words); }

  void Add(const SymExpr& size) {
    sha_.AddField(SizeText(size, shapes_));
    if (!size.is_constant()) sha_.AddNumber(WidestDivisor(size));
  }

  void Add(const View& view) {
    const Buffer& buffer = buffers_[view.buffer];
    sha_.AddField(ShortName(view.dtype)).AddNumber(view.sizes.size());
    for (size_t d = 0; d < view.sizes.size(); ++d) {
      Add(view.sizes[d]);
      Add(view.strides[d]);
    }
    sha_.AddNumber(buffer.alignment_bytes);
    sha_.AddNumber(WidestDivisor(view.offset + buffer.offset));
  }

  void Add(const ContractionOperand& operand) {
    Add(operand.view);
    for (const SymExpr& index : operand.index) sha_.AddField(index.ToString());
  }

  void Add(const ScalarNode& node) {
    sha_.AddField(ScalarOpName(node.op)).AddField(ShortName(node.dtype));
    sha_.AddNumber(node.args.size());
    for (const ScalarId arg : node.args) sha_.AddNumber(arg);
  }

  void Add(const Contraction& c) {
    sha_.AddField(FormName(c.form)).AddField(OperandName(c.written));
    sha_.AddNumber(c.extents.size());
    for (const SymExpr& extent : c.extents) Add(extent);
    for (const ContractionOperand& operand : c.operands) Add(operand);
    sha_.AddNumber(c.body.size());
    for (const ScalarNode& node : c.body) Add(node);
    for (const bool allowed :
         {c.allow_tf32, c.allow_reduced_sums, c.deterministic})
      sha_.AddNumber(allowed);
  }

  void Add(const Attention& a) {
    sha_.AddNumber(a.backward);
    for (const SymExpr& extent : a.extents) Add(extent);
    for (const std::optional<View>& view : a.arrays) {
      sha_.AddNumber(view.has_value());
      if (view.has_value()) Add(*view);
    }
    sha_.AddField(CausalName(a.causal));
    sha_.AddNumber(static_cast<uint64_t>(a.window));
  }

  std::string Digits() { return sha_.Finish().Hex().substr(0, kDigestDigits); }

 private:
  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  Sha256 sha_;
};

std::string SizesText(absl::Span<const SymExpr> sizes, const ShapeEnv& shapes) {
  std::string out;
  for (const SymExpr& size : sizes)
    absl::StrAppend(&out, out.empty() ? "" : "x", SizeText(size, shapes));
  return out;
}

template <typename Step>
std::string KeyOf(absl::string_view family, absl::string_view words,
                  const Step& step, DType dtype, const std::string& sizes,
                  const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                  const Target& target) {
  Digester digester(buffers, shapes);
  digester.Add(family);
  digester.Add(words);
  digester.Add(target.name);
  digester.Add(step);
  return absl::StrCat(kWayKey, family, "/", ShortName(dtype), "/", sizes, "/",
                      digester.Digits(), "/", target.name);
}

}  // namespace

std::string WayKeyOf(absl::string_view family, absl::string_view words,
                     const Contraction& contraction,
                     const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                     const Target& target) {
  return KeyOf(family, words, contraction, contraction.result().view.dtype,
               SizesText(contraction.extents, shapes), buffers, shapes, target);
}

std::string WayKeyOf(absl::string_view family, absl::string_view words,
                     const Attention& attention,
                     const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                     const Target& target) {
  const auto& extents = attention.extents;
  const SymExpr sizes[] = {extents[Attention::kB], extents[Attention::kH],
                           extents[Attention::kM], extents[Attention::kN],
                           extents[Attention::kE]};
  return KeyOf(family, words, attention, attention.at(Attention::kQuery).dtype,
               SizesText(sizes, shapes), buffers, shapes, target);
}

}  // namespace kiln

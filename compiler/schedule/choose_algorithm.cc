#include "compiler/schedule/choose_algorithm.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/size_class.h"
#include "proto/base/digest.h"

namespace kiln {
namespace {

constexpr size_t kDigestDigits = 12;

class KeyWriter {
 public:
  KeyWriter(const std::vector<Buffer>& buffers, const ShapeEnv& shapes)
      : buffers_(buffers), shapes_(shapes) {}

  std::string Digits(const LibraryCall& call, const Target& target) {
    // The version rises when equal words come to mean other algorithms.
    sha_.AddField("kiln library calls 1").AddField(target.name);
    sha_.AddField(call.name);
    AddViews(call.inputs);
    AddViews(call.outputs);
    sha_.AddNumber(call.attributes.size());
    for (const Attribute& attribute : call.attributes) Add(attribute);
    return sha_.Finish().Hex().substr(0, kDigestDigits);
  }

 private:
  void AddViews(const std::vector<View>& views) {
    sha_.AddNumber(views.size());
    for (const View& view : views) {
      sha_.AddNumber(static_cast<uint64_t>(view.dtype));
      sha_.AddNumber(view.sizes.size());
      for (const SymExpr& size : view.sizes) Add(size);
      for (const SymExpr& stride : view.strides) Add(stride);
      const Buffer& buffer = buffers_[view.buffer];
      sha_.AddNumber(buffer.alignment_bytes);
      sha_.AddNumber(WidestDivisor(view.offset + buffer.offset));
    }
  }

  void Add(const SymExpr& number) {
    sha_.AddNumber(number.is_constant());
    if (number.is_constant()) {
      sha_.AddNumber(static_cast<uint64_t>(number.constant()));
      return;
    }
    sha_.AddNumber(SizeClass(shapes_.Hint(number)));
    sha_.AddNumber(WidestDivisor(number));
  }

  void Add(const Attribute& attribute) {
    sha_.AddField(attribute.name);
    sha_.AddNumber(attribute.value.index());
    if (const auto* i = std::get_if<int64_t>(&attribute.value)) {
      sha_.AddNumber(static_cast<uint64_t>(*i));
    } else if (const auto* f = std::get_if<double>(&attribute.value)) {
      sha_.AddNumber(std::bit_cast<uint64_t>(*f));
    } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
      sha_.AddField(*s);
    } else {
      for (const SymExpr& e : std::get<std::vector<SymExpr>>(attribute.value))
        Add(e);
    }
  }

  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  Sha256 sha_;
};

constexpr absl::string_view kConvolution = "convolution";

bool HasChoice(const LibraryCall& call) {
  return call.name == "mm" || call.name == "addmm" || call.name == "bmm" ||
         call.name == "baddbmm" || call.name == kConvolution;
}

std::string SizeText(const SymExpr& size, const ShapeEnv& shapes) {
  if (size.is_constant()) return absl::StrCat(size.constant());
  return absl::StrCat("2^", SizeClass(shapes.Hint(size)));
}

}  // namespace

std::string TuningKey(const LibraryCall& call,
                      const std::vector<Buffer>& buffers,
                      const ShapeEnv& shapes, const Target& target) {
  if (target.kind != TargetKind::kCuda || !HasChoice(call)) return "";
  const View& out = call.outputs[0];
  DimVector named = out.sizes;
  if (call.name != kConvolution)
    named.push_back(call.inputs[call.inputs.size() - 2].sizes.back());
  std::string sizes;
  for (const SymExpr& size : named)
    absl::StrAppend(&sizes, sizes.empty() ? "" : "x", SizeText(size, shapes));
  return absl::StrCat(call.name, "/", ShortName(out.dtype), "/", sizes, "/",
                      KeyWriter(buffers, shapes).Digits(call, target), "/",
                      target.name);
}

int64_t ChooseAlgorithms(KernelPlan& plan, const Target& target,
                         const TuningTable& tuning) {
  int64_t given = 0;
  for (PlannedStep& step : plan.steps) {
    auto* call = std::get_if<LibraryCall>(&step);
    if (call == nullptr) continue;
    const std::string key = TuningKey(*call, plan.buffers, plan.shapes, target);
    if (key.empty()) continue;
    const auto found = tuning.find(key);
    plan.tuned[key] = found == tuning.end() ? "" : found->second;
    if (found == tuning.end()) continue;
    call->attributes.push_back({"algorithm", found->second});
    ++given;
  }
  return given;
}

}  // namespace kiln

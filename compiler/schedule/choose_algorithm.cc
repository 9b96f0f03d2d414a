#include "compiler/schedule/choose_algorithm.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/size_class.h"
#include "proto/base/digest.h"

namespace kiln {
namespace {

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
constexpr absl::string_view kAttention = "attention";
constexpr absl::string_view kAttentionBackward = "attention_backward";

bool IsProduct(const LibraryCall& call) {
  return call.name == "mm" || call.name == "addmm" || call.name == "bmm" ||
         call.name == "baddbmm";
}

bool IsAttention(const LibraryCall& call) {
  return call.name == kAttention || call.name == kAttentionBackward;
}

// A forward and its backward draw the same dropout by the same engine alone.
bool Drops(const LibraryCall& call) {
  return std::any_of(
      call.attributes.begin(), call.attributes.end(),
      [](const Attribute& attribute) { return attribute.name == "dropout"; });
}

bool HasChoice(const LibraryCall& call) {
  return IsProduct(call) || call.name == kConvolution ||
         (IsAttention(call) && !Drops(call));
}

// The sizes that tell calls of one kind apart.
DimVector NamedSizes(const LibraryCall& call) {
  DimVector sizes = call.outputs[0].sizes;
  const std::vector<View>& in = call.inputs;
  if (IsProduct(call)) sizes.push_back(in[in.size() - 2].sizes.back());
  // The keys' number; of a backward their gradient stands first.
  if (call.name == kAttention) sizes.push_back(in[1].sizes[2]);
  if (call.name == kAttentionBackward) sizes.push_back(in[2].sizes[2]);
  return sizes;
}

}  // namespace

std::string TuningKey(const LibraryCall& call,
                      const std::vector<Buffer>& buffers,
                      const ShapeEnv& shapes, const Target& target) {
  if (target.kind != TargetKind::kCuda || !HasChoice(call)) return "";
  const View& out = call.outputs[0];
  std::string sizes;
  for (const SymExpr& size : NamedSizes(call))
    absl::StrAppend(&sizes, sizes.empty() ? "" : "x", SizeText(size, shapes));
  return absl::StrCat(call.name, "/", ShortName(out.dtype), "/", sizes, "/",
                      KeyWriter(buffers, shapes).Digits(call, target), "/",
                      target.name);
}

int64_t ChooseAlgorithms(KernelPlan& plan, const Target& target,
                         const TuningTable& tuning, bool deterministic) {
  int64_t given = 0;
  for (PlannedStep& step : plan.steps) {
    auto* call = std::get_if<LibraryCall>(&step);
    if (call == nullptr) continue;
    if (deterministic && call->name == kAttentionBackward) continue;
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

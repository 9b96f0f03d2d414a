// Reads the text of kernel_plan_text.h, one statement per line.

#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "compiler/loop/line_reader.h"
#include "compiler/loop/statement_reader.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

KernelVariant ReadVariant(LineReader& in) {
  const absl::string_view place = in.rest();
  KernelVariant variant;
  bool found = false;
  for (const absl::string_view name : VariantNames()) {
    if (found || !in.Take(name)) continue;
    found = true;
    variant = VariantFromName(name);
  }
  if (!found) in.FailAt(place, "a variant");
  for (const VariantField& field : FieldsOf(variant)) {
    in.Expect(field.name);
    *field.value = static_cast<int>(in.Int());
  }
  return variant;
}

Attribute ReadAttribute(LineReader& in) {
  Attribute attribute;
  attribute.name = in.Word("an attribute");
  in.Expect("=");
  if (in.Take("float ")) {
    attribute.value = in.Float();
  } else if (in.Take("\"")) {
    attribute.value = in.rest().substr(0, 1) == "\"" ? "" : in.Word();
    in.Expect("\"");
  } else if (in.rest().substr(0, 1) == "[") {
    const DimVector dims = in.Dims();
    attribute.value = std::vector<SymExpr>(dims.begin(), dims.end());
  } else {
    attribute.value = in.Int();
  }
  return attribute;
}

class PlanParser {
 public:
  absl::StatusOr<KernelPlan> Parse(absl::string_view text);

 private:
  enum class Place {
    kBefore,
    kInside,
    kKernel,
    kCombined,
    kFlash,
    kArena,
    kBehind
  };

  void Line(LineReader& in);
  void Header(LineReader& in);
  void BufferPlace(LineReader& in);
  LibraryCall ReadCall(LineReader& in);
  void Statement(LineReader& in);
  void KernelLine(LineReader& in);
  void PartLine(LineReader& in);
  void BeginFlash(LineReader& in);
  void FlashLine(LineReader& in);

  StatementReader statements_;
  KernelPlan plan_;
  PlannedKernel kernel_;
  CombinedKernel combined_;  // kernel_ is a part of it if it has a label
  FlashKernel flash_;
  Place place_ = Place::kBefore;
};

void PlanParser::Header(LineReader& in) {
  in.Expect("plan @");
  plan_.name = in.rest().substr(0, 1) == "(" ? "" : in.Word();
  plan_.shapes = StatementReader::ReadSymbols(in);
  in.Expect("{");
  place_ = Place::kInside;
}

// Reads where the last buffer lies.
void PlanParser::BufferPlace(LineReader& in) {
  const Buffer& buffer = statements_.buffers().back();
  BufferPlacement placement;
  placement.in_arena = in.Take("at ");
  if (placement.in_arena) {
    placement.offset_bytes = in.Expr();
    in.Expect("bytes");
    placement.bytes = in.Expr();
  } else if (in.Take("own ")) {
    placement.own = static_cast<int>(in.Int());
    in.Expect("bytes");
    placement.bytes = in.Expr();
  } else {
    placement.bytes = Product(buffer.sizes) * SizeInBytes(buffer.dtype);
  }
  plan_.placements.push_back(std::move(placement));
}

LibraryCall PlanParser::ReadCall(LineReader& in) {
  LibraryCall call;
  call.name = in.Word("a library call");
  in.Expect("from ");
  call.origin = in.Word("an operator");
  call.inputs = statements_.ReadViews(in);
  in.Expect("->");
  call.outputs = statements_.ReadViews(in);
  while (in.ok() && !in.done()) call.attributes.push_back(ReadAttribute(in));
  return call;
}

void PlanParser::Statement(LineReader& in) {
  if (statements_.TakeBuffer(in)) {
    BufferPlace(in);
  } else if (in.Take("kernel ")) {
    kernel_ = PlannedKernel();
    std::string label = in.Word("a label");
    if (in.Take("{")) {
      combined_.label = std::move(label);
      place_ = Place::kCombined;
      return;
    }
    kernel_.label = std::move(label);
    kernel_.variant = ReadVariant(in);
    if (in.Take("part ")) return BeginFlash(in);
    if (in.Take("workspace")) {
      kernel_.workspace.partials = statements_.ReadBufferName(in);
      kernel_.workspace.counters = statements_.ReadBufferName(in);
    }
    in.Expect("{");
    place_ = Place::kKernel;
  } else if (in.Take("call ")) {
    plan_.steps.push_back(ReadCall(in));
  } else if (in.Take("fill ")) {
    plan_.steps.push_back(statements_.ReadFill(in));
  } else if (in.Take("mutates ")) {
    plan_.mutated_inputs.push_back(static_cast<uint32_t>(in.Int()));
  } else if (in.Take("return ")) {
    plan_.outputs.push_back(statements_.ReadReturn(in));
  } else if (in.Take("arena ")) {
    plan_.arena_bytes = in.Expr();
    in.Expect("bytes, peak live");
    plan_.peak_live_bytes = in.Int();
    place_ = Place::kArena;
  } else {
    in.Fail(
        "in, const, tmp, out, kernel, call, fill, mutates, return or arena");
  }
}

void PlanParser::KernelLine(LineReader& in) {
  if (statements_.in_nest()) {
    auto nest = statements_.ReadNestLine(in);
    if (nest.has_value()) kernel_.nest = *std::move(nest);
  } else if (kernel_.nest.body.empty() && in.Take("nest ")) {
    statements_.BeginNest(in);
  } else {
    in.Expect("}");
    if (combined_.label.empty()) {
      plan_.steps.push_back(std::move(kernel_));
      place_ = Place::kInside;
    } else {
      combined_.parts.push_back(std::move(kernel_));
      place_ = Place::kCombined;
    }
  }
}

void PlanParser::PartLine(LineReader& in) {
  if (in.Take("part ")) {
    kernel_ = PlannedKernel();
    kernel_.variant = ReadVariant(in);
    in.Expect("{");
    place_ = Place::kKernel;
  } else {
    in.Expect("}");
    plan_.steps.push_back(std::exchange(combined_, {}));
    place_ = Place::kInside;
  }
}

// Reads the rest of the line behind the label.
void PlanParser::BeginFlash(LineReader& in) {
  flash_ = FlashKernel();
  flash_.label = std::move(kernel_.label);
  flash_.variant = kernel_.variant;
  const absl::string_view place = in.rest();
  const std::string name = in.Word("a part");
  bool known = false;
  for (const auto part :
       {FlashKernel::Part::kForward, FlashKernel::Part::kQueryGrad,
        FlashKernel::Part::kKeyGrads}) {
    if (PartName(part) != name) continue;
    flash_.part = part;
    known = true;
  }
  if (!known) in.FailAt(place, "forward, query_grad or key_grads");
  if (in.Take("sums")) flash_.sums = statements_.ReadBufferName(in);
  in.Expect("{");
  place_ = Place::kFlash;
}

void PlanParser::FlashLine(LineReader& in) {
  if (statements_.in_attention()) {
    auto attention = statements_.ReadAttentionLine(in);
    if (attention.has_value()) flash_.attention = *std::move(attention);
  } else if (in.Take("attention_backward ")) {
    statements_.BeginAttention(true, in);
  } else if (in.Take("attention ")) {
    statements_.BeginAttention(false, in);
  } else {
    in.Expect("}");
    plan_.steps.push_back(std::move(flash_));
    place_ = Place::kInside;
  }
}

void PlanParser::Line(LineReader& in) {
  switch (place_) {
    case Place::kBefore:
      return Header(in);
    case Place::kInside:
      return Statement(in);
    case Place::kKernel:
      return KernelLine(in);
    case Place::kCombined:
      return PartLine(in);
    case Place::kFlash:
      return FlashLine(in);
    case Place::kArena:
      in.Expect("}");
      place_ = Place::kBehind;
      return;
    case Place::kBehind:
      in.Fail("nothing after the plan");
  }
}

absl::StatusOr<KernelPlan> PlanParser::Parse(absl::string_view text) {
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    LineReader in(line, ++number);
    if (in.done() || in.rest().substr(0, 2) == "//") continue;
    Line(in);
    in.ExpectEnd();
    RETURN_IF_ERROR(in.status());
  }
  if (place_ != Place::kBehind) {
    return absl::InvalidArgumentError("the text ends before the plan does");
  }
  plan_.buffers = std::move(statements_.buffers());
  return std::move(plan_);
}

}  // namespace

absl::StatusOr<KernelPlan> ParseKernelPlan(absl::string_view text) {
  return PlanParser().Parse(text);
}

}  // namespace kiln

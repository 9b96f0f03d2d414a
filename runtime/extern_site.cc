#include "runtime/extern_site.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/read_extern_call.h"

namespace kiln {
namespace {

void AddVarying(const Plan& plan, const std::vector<ExprId>& ids,
                std::vector<ExprId>& varying) {
  for (const ExprId id : ids) {
    if (!plan.expressions[id].program.is_constant()) varying.push_back(id);
  }
}

std::vector<int64_t> Numbers(const std::vector<ExprId>& ids,
                             absl::Span<const int64_t> values) {
  std::vector<int64_t> numbers;
  for (const ExprId id : ids) numbers.push_back(values[id]);
  return numbers;
}

// What ReadExternCall reads, with the memory its spans need.
struct KnownOperands {
  std::vector<std::vector<int64_t>> numbers;
  std::vector<ExternOperand> operands;
};

KnownOperands OperandsOf(const std::vector<PlanView>& views,
                         absl::Span<const int64_t> values) {
  KnownOperands known;
  known.numbers.reserve(2 * views.size());
  for (const PlanView& view : views) {
    known.numbers.push_back(Numbers(view.sizes, values));
    known.numbers.push_back(Numbers(view.strides, values));
    known.operands.push_back(
        {view.dtype, *(known.numbers.end() - 2), *(known.numbers.end() - 1)});
  }
  return known;
}

struct KnownAttributes {
  std::vector<std::vector<int64_t>> numbers;
  std::vector<ExternAttribute> attributes;
};

KnownAttributes AttributesOf(const std::vector<PlanAttribute>& from,
                             absl::Span<const int64_t> values) {
  KnownAttributes known;
  known.numbers.reserve(from.size());
  for (const PlanAttribute& attribute : from) {
    ExternAttribute out{attribute.name, int64_t{0}};
    if (const auto* number = std::get_if<int64_t>(&attribute.value)) {
      out.value = *number;
    } else if (const auto* real = std::get_if<double>(&attribute.value)) {
      out.value = *real;
    } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
      out.value = absl::string_view(*text);
    } else {
      known.numbers.push_back(
          Numbers(std::get<std::vector<ExprId>>(attribute.value), values));
      out.value = absl::Span<const int64_t>(known.numbers.back());
    }
    known.attributes.push_back(out);
  }
  return known;
}

}  // namespace

ExternSite::ExternSite(const PlanExtern& call, const Plan& plan,
                       ExternLibrary& library, ConstantOperands& constants)
    : call_(call), library_(library), constants_(constants) {
  for (const PlanView& view : call.inputs) views_.push_back(&view);
  for (const PlanView& view : call.outputs) views_.push_back(&view);
  for (const PlanView* view : views_) {
    AddVarying(plan, view->sizes, varying_);
    AddVarying(plan, view->strides, varying_);
  }
  for (const PlanAttribute& attribute : call.attributes) {
    const auto* ids = std::get_if<std::vector<ExprId>>(&attribute.value);
    if (ids != nullptr) AddVarying(plan, *ids, varying_);
  }
  std::sort(varying_.begin(), varying_.end());
  varying_.erase(std::unique(varying_.begin(), varying_.end()), varying_.end());
}

absl::StatusOr<std::unique_ptr<ExternSite>> ExternSite::Bind(
    const PlanExtern& call, const Plan& plan, ExternLibrary& library,
    ConstantOperands& constants) {
  std::unique_ptr<ExternSite> site(
      new ExternSite(call, plan, library, constants));
  if (!site->varying_.empty()) return site;
  std::vector<int64_t> values;
  values.reserve(plan.expressions.size());
  for (const PlanExpression& expression : plan.expressions) {
    values.push_back(
        expression.program.is_constant() ? expression.program.Evaluate({}) : 0);
  }
  ASSIGN_OR_RETURN(site->fixed_, site->Prepare(values));
  return site;
}

absl::StatusOr<std::shared_ptr<const ExternSite::Shape>> ExternSite::Prepare(
    absl::Span<const int64_t> values) const {
  const KnownOperands inputs = OperandsOf(call_.inputs, values);
  const KnownOperands outputs = OperandsOf(call_.outputs, values);
  const KnownAttributes attributes = AttributesOf(call_.attributes, values);
  ASSIGN_OR_RETURN(const ExternPart part,
                   ReadExternCall({call_.name, inputs.operands,
                                   outputs.operands, attributes.attributes}));
  auto shape = std::make_shared<Shape>();
  for (const ExprId id : varying_) shape->numbers.push_back(values[id]);
  std::copy(std::begin(part.operand), std::end(part.operand), shape->operand);
  absl::StatusOr<std::shared_ptr<const PreparedCall>> call =
      library_.Prepare(part.problem);
  if (!call.ok()) return Annotate(call.status(), call_.name);
  shape->call = *std::move(call);
  shape->problem = Describe(part.problem);
  const OperandForm form = shape->call->operand_form();
  if (form.operand >= 0) {
    absl::StatusOr<std::shared_ptr<const ConstantOperands::Copy>> prepared =
        constants_.CopyFor(*shape->call, form,
                           *views_[shape->operand[form.operand]]);
    if (!prepared.ok()) return Annotate(prepared.status(), call_.name);
    shape->prepared = *std::move(prepared);
  }
  return std::shared_ptr<const Shape>(std::move(shape));
}

absl::StatusOr<std::shared_ptr<const ExternSite::Shape>> ExternSite::ShapeFor(
    absl::Span<const int64_t> values) const {
  if (fixed_ != nullptr) return fixed_;
  const auto is_this = [&](const std::shared_ptr<const Shape>& shape) {
    for (size_t i = 0; i < varying_.size(); ++i) {
      if (shape->numbers[i] != values[varying_[i]]) return false;
    }
    return true;
  };
  {
    MutexLock lock(&mu_);
    for (const std::shared_ptr<const Shape>& shape : kept_) {
      if (is_this(shape)) return shape;
    }
  }
  // Two threads may prepare one new shape: then it is kept twice, for a while.
  ASSIGN_OR_RETURN(std::shared_ptr<const Shape> fresh, Prepare(values));
  std::shared_ptr<const Shape> replaced = fresh;
  MutexLock lock(&mu_);
  if (kept_.size() < kKeptShapes) {
    kept_.push_back(fresh);
  } else {
    kept_[replace_next_++ % kKeptShapes].swap(replaced);
  }
  return fresh;
}

std::vector<std::string> ExternSite::Descriptions() const {
  std::string what = call_.name;
  const bool adds =
      std::any_of(call_.attributes.begin(), call_.attributes.end(),
                  [](const PlanAttribute& a) { return a.name == "added"; });
  if (call_.name == "convolution" && call_.inputs.size() > (adds ? 3 : 2))
    absl::StrAppend(&what, ", bias");
  if (adds) absl::StrAppend(&what, ", added");
  for (const PlanAttribute& attribute : call_.attributes) {
    const auto* word = std::get_if<std::string>(&attribute.value);
    if (attribute.name == "activation" && word != nullptr)
      absl::StrAppend(&what, ", ", *word);
  }
  std::vector<std::shared_ptr<const Shape>> shapes;
  if (fixed_ != nullptr) {
    shapes.push_back(fixed_);
  } else {
    MutexLock lock(&mu_);
    shapes = kept_;
  }
  std::vector<std::string> lines;
  for (const std::shared_ptr<const Shape>& shape : shapes) {
    const std::string algorithm = shape->call->algorithm();
    lines.push_back(absl::StrCat(what, ": ", shape->problem, ": ",
                                 shape->call->library(),
                                 algorithm.empty() ? "" : ", ", algorithm));
    if (shape->prepared == nullptr) continue;
    absl::StrAppend(&lines.back(), ", ", shape->prepared->bytes(),
                    " bytes of a constant prepared");
  }
  return lines;
}

absl::Status ExternSite::Run(const Shape& shape,
                             absl::Span<const int64_t> values,
                             absl::Span<char* const> bases, void* workspace,
                             Stream stream) const {
  ExternBuffers buffers;
  buffers.workspace = workspace;
  if (shape.prepared != nullptr) buffers.prepared = shape.prepared->data();
  for (int i = 0; i < kMaxExternOperands; ++i) {
    if (shape.operand[i] < 0) continue;
    const PlanView& view = *views_[shape.operand[i]];
    buffers.operand[i] =
        bases[view.buffer] + values[view.offset] * SizeInBytes(view.dtype);
  }
  return shape.call->Run(buffers, stream);
}

}  // namespace kiln

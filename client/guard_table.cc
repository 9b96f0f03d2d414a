#include "client/guard_table.h"

#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "runtime/check_inputs.h"

namespace kiln {
namespace {

// The low bits of a memo row hold an entry's number; 2^16 - 2 entries are more
// specializations than any program should make.
constexpr uint64_t kEntryMask = 0xffff;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9fb21c651e98df25u;
  return hash ^ (hash >> 32);
}

bool Misaligned(const Tensor& tensor, uint32_t mask) {
  return (reinterpret_cast<uintptr_t>(tensor.data) & mask) != 0 &&
         !IsEmpty(tensor);
}

}  // namespace

uint64_t HashOfMetas(absl::Span<const InputValue> inputs) {
  uint64_t hash = inputs.size();
  for (const InputValue& input : inputs) {
    if (const auto* integer = std::get_if<int64_t>(&input)) {
      hash = Mix(hash, static_cast<uint64_t>(*integer));
      continue;
    }
    const Tensor& tensor = std::get<Tensor>(input);
    hash = Mix(hash, static_cast<uint64_t>(tensor.dtype) |
                         tensor.sizes.size() << 8 |
                         static_cast<uint64_t>(tensor.device) << 40);
    for (const int64_t size : tensor.sizes) hash = Mix(hash, size);
    for (const int64_t stride : tensor.strides) hash = Mix(hash, stride);
  }
  return hash;
}

CompiledGuards::CompiledGuards(const Plan& plan,
                               const std::vector<PlanGuard>& guards)
    : symbols_(plan.symbols), guards_(guards) {
  for (int i = 0; i < static_cast<int>(plan.inputs.size()); ++i) {
    Shape shape = {};
    if (const auto* tensor = std::get_if<PlanTensorInput>(&plan.inputs[i])) {
      shape.is_tensor = true;
      shape.dtype = tensor->dtype;
      shape.rank = static_cast<int16_t>(tensor->sizes.size());
      if (tensor->alignment_bytes > 1) {
        shape.alignment_mask = tensor->alignment_bytes - 1;
      }
      AddDims(plan, tensor->sizes, i, Of::kSize);
      AddDims(plan, tensor->strides, i, Of::kStride);
    } else {
      const auto& scalar = std::get<PlanScalarInput>(plan.inputs[i]);
      const SymProgram& value = plan.expressions[scalar.value].program;
      shape.fixed_scalar = value.is_constant();
      if (shape.fixed_scalar) {
        shape.scalar = value.Evaluate({});
      } else {
        symbolic_.push_back({i, 0, Of::kSize, true, value});
      }
    }
    shapes_.push_back(shape);
  }
}

void CompiledGuards::AddDims(const Plan& plan, const std::vector<ExprId>& dims,
                             int input, Of of) {
  for (size_t d = 0; d < dims.size(); ++d) {
    AddNumber(plan, dims[d], input, static_cast<int>(d), of);
  }
}

void CompiledGuards::AddNumber(const Plan& plan, ExprId expression, int input,
                               int dim, Of of) {
  const SymProgram& due = plan.expressions[expression].program;
  const auto short_dim = static_cast<int16_t>(dim);
  if (due.is_constant()) {
    fixed_.push_back({input, short_dim, of, due.Evaluate({})});
  } else {
    symbolic_.push_back({input, short_dim, of, false, due});
  }
}

int64_t CompiledGuards::NumberOf(const Tensor& tensor, Of of, int dim) {
  switch (of) {
    case Of::kSize:
      return tensor.sizes[dim];
    case Of::kStride:
      return tensor.strides[dim];
    case Of::kOffset:
      return tensor.storage_offset;
  }
  return 0;
}

bool CompiledGuards::Matters(const Tensor& tensor, Of of, int dim) {
  return of != Of::kStride || StrideMatters(tensor, static_cast<size_t>(dim));
}

bool CompiledGuards::HoldShapes(absl::Span<const InputValue> inputs,
                                bool with_alignment) const {
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const Shape& due = shapes_[i];
    const auto* tensor = std::get_if<Tensor>(&inputs[i]);
    if ((tensor != nullptr) != due.is_tensor) return false;
    if (tensor == nullptr) {
      if (due.fixed_scalar && std::get<int64_t>(inputs[i]) != due.scalar) {
        return false;
      }
      continue;
    }
    if (tensor->dtype != due.dtype ||
        tensor->sizes.size() != static_cast<size_t>(due.rank) ||
        tensor->strides.size() != static_cast<size_t>(due.rank) ||
        (with_alignment && Misaligned(*tensor, due.alignment_mask))) {
      return false;
    }
  }
  return true;
}

bool CompiledGuards::HoldFixed(absl::Span<const InputValue> inputs) const {
  for (const Fixed& number : fixed_) {
    // HoldShapes has seen that it is a tensor of the right rank.
    const Tensor& tensor = *std::get_if<Tensor>(&inputs[number.input]);
    const Dims& dims = number.of == Of::kSize ? tensor.sizes : tensor.strides;
    if (dims[number.dim] != number.due &&
        Matters(tensor, number.of, number.dim)) {
      return false;
    }
  }
  return true;
}

bool CompiledGuards::BindSymbols(absl::Span<const InputValue> inputs,
                                 absl::Span<int64_t> values) const {
  for (size_t s = 0; s < symbols_.size(); ++s) {
    const PlanSymbol& symbol = symbols_[s];
    values[s] = symbol.source == PlanSymbol::Source::kStep
                    ? symbol.min  // bound by the plan, not by inputs
                    : SymbolValue(symbol, inputs[symbol.input]);
    if (values[s] < symbol.min || values[s] > symbol.max) return false;
  }
  return true;
}

bool CompiledGuards::HoldSymbolic(absl::Span<const InputValue> inputs,
                                  absl::Span<const int64_t> values) const {
  for (const Symbolic& number : symbolic_) {
    const InputValue& input = inputs[number.input];
    const int64_t found = number.scalar ? std::get<int64_t>(input)
                                        : NumberOf(std::get<Tensor>(input),
                                                   number.of, number.dim);
    if (found == number.due.Evaluate(values)) continue;
    if (number.scalar ||
        Matters(std::get<Tensor>(input), number.of, number.dim)) {
      return false;
    }
  }
  return true;
}

bool CompiledGuards::HoldGuards(absl::Span<const int64_t> values) const {
  for (const PlanGuard& guard : guards_) {
    if (guard.condition.Evaluate(values) == 0) return false;
  }
  return true;
}

bool CompiledGuards::Hold(absl::Span<const InputValue> inputs) const {
  if (inputs.size() != shapes_.size() ||
      !HoldShapes(inputs, /*with_alignment=*/true) || !HoldFixed(inputs)) {
    return false;
  }
  absl::InlinedVector<int64_t, kFewSymbols> values(symbols_.size());
  return BindSymbols(inputs, absl::MakeSpan(values)) &&
         HoldSymbolic(inputs, values) && HoldGuards(values);
}

CompiledGuards::Mismatch CompiledGuards::Examine(
    absl::Span<const InputValue> inputs) const {
  Mismatch out;
  out.symbols.resize(symbols_.size());
  if (inputs.size() != shapes_.size() ||
      !HoldShapes(inputs, /*with_alignment=*/false) || !HoldFixed(inputs) ||
      !BindSymbols(inputs, absl::MakeSpan(out.symbols)) ||
      !HoldSymbolic(inputs, out.symbols)) {
    out.hopeless = true;
    return out;
  }
  for (const PlanGuard& guard : guards_) {
    if (guard.condition.Evaluate(out.symbols) == 0) {
      out.forbidden.push_back(guard.condition);
    }
  }
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const auto* tensor = std::get_if<Tensor>(&inputs[i]);
    if (tensor == nullptr || !Misaligned(*tensor, shapes_[i].alignment_mask)) {
      continue;
    }
    const auto address = reinterpret_cast<uintptr_t>(tensor->data);
    out.alignments.emplace_back(i, static_cast<uint32_t>(address & -address));
  }
  return out;
}

int CompiledGuards::count() const {
  int count = static_cast<int>(fixed_.size() + symbolic_.size() +
                               guards_.size() + symbols_.size());
  for (const Shape& shape : shapes_) {
    count += shape.is_tensor && shape.alignment_mask != 0 ? 3 : 2;
  }
  return count;
}

std::string CompiledGuards::WhyNot(absl::Span<const InputValue> inputs) const {
  if (inputs.size() != shapes_.size()) {
    return absl::StrCat(inputs.size(), " inputs, due ", shapes_.size());
  }
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const Shape& due = shapes_[i];
    const auto* tensor = std::get_if<Tensor>(&inputs[i]);
    if ((tensor != nullptr) != due.is_tensor) {
      return absl::StrCat("input ", i, ": due ",
                          due.is_tensor ? "a tensor" : "an integer");
    }
    if (tensor == nullptr) continue;
    if (tensor->dtype != due.dtype) {
      return absl::StrCat("input ", i, ": ", ShortName(tensor->dtype), ", due ",
                          ShortName(due.dtype));
    }
    if (tensor->sizes.size() != static_cast<size_t>(due.rank)) {
      return absl::StrCat("input ", i, ": rank ", tensor->sizes.size(),
                          ", due ", due.rank);
    }
    if (Misaligned(*tensor, due.alignment_mask)) {
      return absl::StrCat("input ", i, ": address not a multiple of ",
                          due.alignment_mask + 1);
    }
  }
  if (!HoldShapes(inputs, /*with_alignment=*/true)) {
    return "an integer input has another value";
  }
  for (const Fixed& number : fixed_) {
    const int64_t found =
        NumberOf(std::get<Tensor>(inputs[number.input]), number.of, number.dim);
    if (found == number.due || !Matters(std::get<Tensor>(inputs[number.input]),
                                        number.of, number.dim)) {
      continue;
    }
    return absl::StrCat("input ", number.input, ": ",
                        number.of == Of::kSize ? "size " : "stride ",
                        number.dim, " is ", found, ", due ", number.due);
  }
  std::vector<int64_t> values(symbols_.size());
  if (!BindSymbols(inputs, absl::MakeSpan(values))) {
    return "a symbol is out of its range";
  }
  for (const PlanGuard& guard : guards_) {
    if (guard.condition.Evaluate(values) == 0) {
      return absl::StrCat("guard ", guard.condition.ToText(), " (",
                          guard.origin, ")");
    }
  }
  if (!HoldSymbolic(inputs, values)) return "sizes that do not go together";
  return "";
}

std::shared_ptr<const GuardTable> GuardTable::With(
    CompiledGuards guards) const {
  auto next = std::make_shared<GuardTable>();
  next->entries_ = entries_;
  next->entries_.push_back(
      std::make_shared<const CompiledGuards>(std::move(guards)));
  return next;
}

int GuardTable::Find(absl::Span<const InputValue> inputs) const {
  // Nothing to choose from: a hash would cost as much as the guards.
  if (size() == 1) return entries_[0]->Hold(inputs) ? 0 : -1;
  const uint64_t hash = HashOfMetas(inputs);
  std::atomic<uint64_t>& row = memo_[hash % kMemoRows];
  const uint64_t remembered = row.load(std::memory_order_relaxed);
  const int hinted = static_cast<int>(remembered & kEntryMask) - 1;
  if (remembered != 0 && ((remembered ^ hash) & ~kEntryMask) == 0 &&
      entries_[hinted]->Hold(inputs)) {
    return hinted;
  }
  for (int i = size() - 1; i >= 0; --i) {
    if (!entries_[i]->Hold(inputs)) continue;
    row.store((hash & ~kEntryMask) | static_cast<uint64_t>(i + 1),
              std::memory_order_relaxed);
    return i;
  }
  return -1;
}

}  // namespace kiln

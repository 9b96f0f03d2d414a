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

// Whether a tensor has the sizes and strides `due`, sizes first, where they are
// not `any`.
bool HoldDims(const InputView& tensor, const int64_t* due, int64_t any) {
  const int64_t* const strides = due + tensor.rank;
  for (int32_t d = 0; d < tensor.rank; ++d) {
    if (tensor.sizes[d] != due[d] && due[d] != any) return false;
    if (tensor.strides[d] != strides[d] && strides[d] != any &&
        StrideMatters(tensor, d)) {
      return false;
    }
  }
  return true;
}

// The value of a constant program, else `otherwise`.
int64_t FixedOr(int64_t otherwise, const SymProgram& program) {
  return program.is_constant() ? program.Evaluate({}) : otherwise;
}

bool Misaligned(const InputView& tensor, uint32_t mask) {
  return (reinterpret_cast<uintptr_t>(tensor.data) & mask) != 0 &&
         !IsEmpty(tensor);
}

}  // namespace

uint64_t HashOfMetas(absl::Span<const InputView> inputs) {
  uint64_t hash = inputs.size();
  for (const InputView& input : inputs) {
    if (!input.is_tensor) {
      hash = Mix(hash, static_cast<uint64_t>(input.number));
      continue;
    }
    hash = Mix(hash, static_cast<uint64_t>(input.dtype) |
                         static_cast<uint64_t>(input.rank) << 8);
    for (int d = 0; d < input.rank; ++d) hash = Mix(hash, input.sizes[d]);
    for (int d = 0; d < input.rank; ++d) hash = Mix(hash, input.strides[d]);
  }
  return hash;
}

CompiledGuards::CompiledGuards(const Plan& plan,
                               const std::vector<PlanGuard>& guards)
    : symbols_(plan.symbols), guards_(guards) {
  for (int i = 0; i < static_cast<int>(plan.inputs.size()); ++i) {
    Due due = {};
    if (const auto* tensor = std::get_if<PlanTensorInput>(&plan.inputs[i])) {
      due.is_tensor = true;
      due.dtype = tensor->dtype;
      due.rank = static_cast<int32_t>(tensor->sizes.size());
      if (tensor->alignment_bytes > 1) {
        due.alignment_mask = tensor->alignment_bytes - 1;
      }
      due.dims = static_cast<int32_t>(dims_.size());
      AddDims(plan, tensor->sizes, i, Of::kSize);
      AddDims(plan, tensor->strides, i, Of::kStride);
    } else {
      const auto& scalar = std::get<PlanScalarInput>(plan.inputs[i]);
      const SymProgram& value = plan.expressions[scalar.value].program;
      due.scalar = FixedOr(kAny, value);
      if (due.scalar == kAny) {
        symbolic_.push_back({i, 0, Of::kSize, true, value});
      }
    }
    due_.push_back(due);
  }
}

void CompiledGuards::AddDims(const Plan& plan, const std::vector<ExprId>& dims,
                             int input, Of of) {
  for (size_t d = 0; d < dims.size(); ++d) {
    const SymProgram& due = plan.expressions[dims[d]].program;
    dims_.push_back(FixedOr(kAny, due));
    if (dims_.back() != kAny) continue;
    symbolic_.push_back({input, static_cast<int16_t>(d), of, false, due});
  }
}

bool CompiledGuards::IsVery(const Due& due, const InputView& input) const {
  if (!input.is_tensor || !due.is_tensor || input.dtype != due.dtype ||
      input.rank != due.rank ||
      (reinterpret_cast<uintptr_t>(input.data) & due.alignment_mask) != 0) {
    return false;
  }
  const int64_t* const sizes = dims_.data() + due.dims;
  const int64_t* const strides = sizes + due.rank;
  int64_t other = 0;
  for (int32_t d = 0; d < due.rank; ++d) {
    other |= (input.sizes[d] ^ sizes[d]) | (input.strides[d] ^ strides[d]);
  }
  return other == 0;
}

bool CompiledGuards::HoldInput(const Due& due, const InputView& input,
                               bool with_alignment) const {
  if (input.is_tensor != due.is_tensor) return false;
  if (!due.is_tensor) return input.number == due.scalar || due.scalar == kAny;
  return input.dtype == due.dtype && input.rank == due.rank &&
         !(with_alignment && Misaligned(input, due.alignment_mask)) &&
         HoldDims(input, dims_.data() + due.dims, kAny);
}

bool CompiledGuards::HoldInputs(absl::Span<const InputView> inputs,
                                bool with_alignment) const {
  const InputView* input = inputs.data();
  for (const Due& due : due_) {
    if (!IsVery(due, *input) && !HoldInput(due, *input, with_alignment)) {
      return false;
    }
    ++input;
  }
  return true;
}

bool CompiledGuards::BindSymbols(absl::Span<const InputView> inputs,
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

bool CompiledGuards::HoldSymbolic(absl::Span<const InputView> inputs,
                                  absl::Span<const int64_t> values) const {
  for (const Symbolic& number : symbolic_) {
    const InputView& input = inputs[number.input];
    const int64_t found = number.scalar            ? input.number
                          : number.of == Of::kSize ? input.sizes[number.dim]
                                                   : input.strides[number.dim];
    if (found == number.due.Evaluate(values)) continue;
    if (number.scalar || number.of == Of::kSize ||
        StrideMatters(input, number.dim)) {
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

bool CompiledGuards::Hold(absl::Span<const InputView> inputs) const {
  if (inputs.size() != due_.size() ||
      !HoldInputs(inputs, /*with_alignment=*/true)) {
    return false;
  }
  absl::InlinedVector<int64_t, kFewSymbols> values(symbols_.size());
  return BindSymbols(inputs, absl::MakeSpan(values)) &&
         HoldSymbolic(inputs, values) && HoldGuards(values);
}

CompiledGuards::Mismatch CompiledGuards::Examine(
    absl::Span<const InputView> inputs) const {
  Mismatch out;
  out.symbols.resize(symbols_.size());
  if (inputs.size() != due_.size() ||
      !HoldInputs(inputs, /*with_alignment=*/false) ||
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
  for (size_t i = 0; i < due_.size(); ++i) {
    if (!due_[i].is_tensor || !Misaligned(inputs[i], due_[i].alignment_mask)) {
      continue;
    }
    const auto address = reinterpret_cast<uintptr_t>(inputs[i].data);
    out.alignments.emplace_back(i, static_cast<uint32_t>(address & -address));
  }
  return out;
}

int CompiledGuards::count() const {
  int count = static_cast<int>(dims_.size() + guards_.size() + symbols_.size());
  for (const Due& due : due_) {
    count += due.is_tensor && due.alignment_mask != 0 ? 3 : 2;
  }
  return count;
}

std::string CompiledGuards::WhyNotInput(size_t i,
                                        const InputView& input) const {
  const Due& due = due_[i];
  if (input.is_tensor != due.is_tensor) {
    return absl::StrCat("input ", i, ": expected ",
                        due.is_tensor ? "a tensor" : "an integer");
  }
  if (!due.is_tensor) {
    if (input.number == due.scalar || due.scalar == kAny) return "";
    return absl::StrCat("input ", i, ": ", input.number, ", expected ",
                        due.scalar);
  }
  if (input.dtype != due.dtype) {
    return absl::StrCat("input ", i, ": ", ShortName(input.dtype),
                        ", expected ", ShortName(due.dtype));
  }
  if (input.rank != due.rank) {
    return absl::StrCat("input ", i, ": rank ", input.rank, ", expected ",
                        due.rank);
  }
  if (Misaligned(input, due.alignment_mask)) {
    return absl::StrCat("input ", i, ": address not a multiple of ",
                        due.alignment_mask + 1);
  }
  return WhyNotDims(i, input);
}

std::string CompiledGuards::WhyNotDims(size_t i,
                                       const InputView& tensor) const {
  const auto differs = [i](absl::string_view what, int dim, int64_t found,
                           int64_t due) {
    return absl::StrCat("input ", i, ": ", what, " ", dim, " is ", found,
                        ", expected ", due);
  };
  const int64_t* const sizes = dims_.data() + due_[i].dims;
  const int64_t* const strides = sizes + tensor.rank;
  for (int d = 0; d < tensor.rank; ++d) {
    if (tensor.sizes[d] == sizes[d] || sizes[d] == kAny) continue;
    return differs("size", d, tensor.sizes[d], sizes[d]);
  }
  for (int d = 0; d < tensor.rank; ++d) {
    if (tensor.strides[d] == strides[d] || strides[d] == kAny ||
        !StrideMatters(tensor, d)) {
      continue;
    }
    return differs("stride", d, tensor.strides[d], strides[d]);
  }
  return "";
}

std::string CompiledGuards::WhyNot(absl::Span<const InputView> inputs) const {
  if (inputs.size() != due_.size()) {
    return absl::StrCat(inputs.size(), " inputs, expected ", due_.size());
  }
  for (size_t i = 0; i < due_.size(); ++i) {
    std::string why = WhyNotInput(i, inputs[i]);
    if (!why.empty()) return why;
  }
  std::vector<int64_t> values(symbols_.size());
  if (!BindSymbols(inputs, absl::MakeSpan(values))) {
    return "the value of a symbol is out of its range";
  }
  for (const PlanGuard& guard : guards_) {
    if (guard.condition.Evaluate(values) == 0) {
      return absl::StrCat("guard ", guard.condition.ToText(), " (",
                          guard.origin, ")");
    }
  }
  if (!HoldSymbolic(inputs, values))
    return "sizes or strides do not match the values of the symbols";
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

int GuardTable::Find(absl::Span<const InputView> inputs) const {
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

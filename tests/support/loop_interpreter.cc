#include "tests/support/loop_interpreter.h"

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/loop_text.h"
#include "compiler/schedule/write_calls.h"
#include "tests/support/nest_run.h"

namespace kiln {

namespace {

class Run {
 public:
  Run(const std::vector<Buffer>& buffers, const ShapeEnv& shapes)
      : buffers_(buffers), shapes_(shapes), memory_(buffers.size()) {}

  absl::Status BindInputs(absl::Span<const GraphConstant> constants,
                          absl::Span<const RefValue> inputs);
  void Allocate(const std::vector<BufferPlacement>& placements,
                int64_t arena_bytes);
  absl::Status Nest(const LoopNest& nest);
  absl::Status Call(const LibraryCall& call);
  absl::Status Flash(const FlashKernel& kernel);
  absl::Status Contract(const Contraction& contraction);
  absl::Status FillBuffer(const Fill& fill);
  RefOutcome Outcome(const std::vector<ProgramOutput>& outputs,
                     absl::Span<const RefValue> inputs) const;

  void BindSymbols(absl::Span<const RefValue> inputs);

 private:
  int64_t Eval(const SymExpr& e) const;
  MemoryView ViewOf(const View& view) const;
  int64_t SpanOf(const Buffer& buffer) const;

  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  std::vector<Memory> memory_;
  std::vector<std::unique_ptr<std::string>> owned_;
  absl::flat_hash_map<BufferId, std::shared_ptr<std::string>> storages_;
  std::vector<RefTensor> input_copies_;
  std::vector<int64_t> symbols_;
};

void Run::BindSymbols(absl::Span<const RefValue> inputs) {
  for (const SymbolFacts& symbol : shapes_.symbols) {
    int64_t value = symbol.hint;
    const SymbolSource& source = symbol.source;
    if (source.input < inputs.size()) {
      const RefValue& input = inputs[source.input];
      if (const auto* tensor = std::get_if<RefTensor>(&input)) {
        if (source.kind == SymbolSource::Kind::kSize) {
          value = tensor->sizes[source.dim];
        } else if (source.kind == SymbolSource::Kind::kStride) {
          value = tensor->strides[source.dim];
        }
      } else if (const auto* scalar = std::get_if<int64_t>(&input)) {
        value = *scalar;
      }
    }
    symbols_.push_back(value);
  }
}

int64_t Run::Eval(const SymExpr& e) const {
  return e.Evaluate([&](Var v) -> int64_t {
    return v.kind == Var::Kind::kSymbol ? symbols_[v.index] : 0;
  });
}

int64_t Run::SpanOf(const Buffer& buffer) const {
  int64_t span = 1;
  for (size_t d = 0; d < buffer.sizes.size(); ++d) {
    const int64_t size = Eval(buffer.sizes[d]);
    if (size == 0) return 0;
    span += (size - 1) * Eval(buffer.strides[d]);
  }
  return span;
}

absl::Status Run::BindInputs(absl::Span<const GraphConstant> constants,
                             absl::Span<const RefValue> inputs) {
  input_copies_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (const auto* tensor = std::get_if<RefTensor>(&inputs[i])) {
      input_copies_[i] = *tensor;
      input_copies_[i].storage =
          std::make_shared<std::string>(*tensor->storage);
    }
  }
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const Buffer& buffer = buffers_[b];
    if (buffer.kind == BufferKind::kInput) {
      RefTensor& tensor = input_copies_[buffer.index];
      memory_[b].first =
          tensor.storage->data() + tensor.offset * SizeInBytes(buffer.dtype);
      memory_[b].elements = SpanOf(buffer);
      storages_[static_cast<BufferId>(b)] = tensor.storage;
    } else if (buffer.kind == BufferKind::kConstant) {
      owned_.push_back(
          std::make_unique<std::string>(constants[buffer.index].data));
      memory_[b] = {owned_.back()->data(), SpanOf(buffer)};
    }
  }
  return absl::OkStatus();
}

void Run::Allocate(const std::vector<BufferPlacement>& placements,
                   int64_t arena_bytes) {
  // Garbage, so that what nobody wrote is seen.
  owned_.push_back(std::make_unique<std::string>(
      static_cast<size_t>(arena_bytes) + 64, '\x7e'));
  char* const arena = owned_.back()->data();
  std::map<int, std::unique_ptr<std::string>> own;
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const Buffer& buffer = buffers_[b];
    const int64_t span = SpanOf(buffer);
    const auto bytes =
        static_cast<size_t>(span * SizeInBytes(buffer.dtype)) + 8;
    if (buffer.kind == BufferKind::kTemporary && !placements.empty()) {
      if (placements[b].in_arena) {
        memory_[b] = {arena + Eval(placements[b].offset_bytes), span};
      } else if (placements[b].own >= 0) {
        std::unique_ptr<std::string>& shared = own[placements[b].own];
        if (shared == nullptr) {
          shared = std::make_unique<std::string>(
              static_cast<size_t>(Eval(placements[b].bytes)) + 64, '\x7e');
        }
        memory_[b] = {shared->data(), span};
      }
    } else if (buffer.kind == BufferKind::kTemporary) {
      owned_.push_back(std::make_unique<std::string>(bytes, '\x7e'));
      memory_[b] = {owned_.back()->data(), span};
    } else if (buffer.kind == BufferKind::kOutput) {
      auto storage = std::make_shared<std::string>(bytes, '\x7e');
      memory_[b] = {storage->data(), span};
      storages_[static_cast<BufferId>(b)] = std::move(storage);
    }
  }
  for (auto& [number, memory] : own) owned_.push_back(std::move(memory));
}

absl::Status Run::Nest(const LoopNest& nest) {
  // What no point reaches is 0.
  for (const struct Store& s : nest.stores)
    if (s.mode == StoreMode::kSum) FillBuffer({s.buffer, {}}).IgnoreError();
  return NestRun(nest, buffers_, memory_, symbols_).AllPoints();
}

MemoryView Run::ViewOf(const View& view) const {
  MemoryView out{view.dtype, {}, {}, nullptr};
  for (const SymExpr& e : view.sizes) out.sizes.push_back(Eval(e));
  for (const SymExpr& e : view.strides) out.strides.push_back(Eval(e));
  out.first =
      memory_[view.buffer].first + Eval(view.offset) * SizeInBytes(view.dtype);
  return out;
}

absl::Status Run::Call(const LibraryCall& call) {
  std::vector<MemoryView> inputs, outputs;
  for (const View& view : call.inputs) inputs.push_back(ViewOf(view));
  for (const View& view : call.outputs) outputs.push_back(ViewOf(view));
  return RunCall(call, inputs, outputs);
}

// The whole attention, of which only what the part writes is kept.
absl::Status Run::Flash(const FlashKernel& kernel) {
  const LibraryCall call = CallOf(kernel.attention);
  std::vector<MemoryView> inputs, outputs;
  for (const View& view : call.inputs) inputs.push_back(ViewOf(view));
  std::vector<std::vector<char>> unkept;
  for (size_t place = 0; place < Attention::kPlaces; ++place) {
    if (!kernel.attention.arrays[place].has_value() ||
        !kernel.attention.Writes(place)) {
      continue;
    }
    outputs.push_back(ViewOf(*kernel.attention.arrays[place]));
    if (kernel.Writes(place)) continue;
    MemoryView& view = outputs.back();
    int64_t elements = 1;
    for (size_t d = view.sizes.size(); d-- > 0;) {
      view.strides[d] = elements;
      elements *= view.sizes[d];
    }
    unkept.emplace_back(elements * SizeInBytes(view.dtype));
    view.first = unkept.back().data();
  }
  return RunCall(call, inputs, outputs);
}

absl::Status Run::Contract(const Contraction& contraction) {
  std::vector<MemoryView> arrays;
  for (const ContractionOperand& operand : contraction.operands)
    arrays.push_back(ViewOf(operand.view));
  std::vector<int64_t> extents;
  for (const SymExpr& e : contraction.extents) extents.push_back(Eval(e));
  const auto at = [&](const SymExpr& e, absl::Span<const int64_t> axes) {
    return e.Evaluate([&](Var v) -> int64_t {
      return v.kind == Var::Kind::kSymbol ? symbols_[v.index] : axes[v.index];
    });
  };
  const auto load = [&](const ScalarNode& node,
                        absl::Span<const int64_t> axes) {
    const Buffer& buffer = buffers_[node.buffer];
    int64_t address = 0;
    for (size_t d = 0; d < node.index.size(); ++d)
      address += at(node.index[d], axes) * Eval(buffer.strides[d]);
    return ReadCell(buffer.dtype, memory_[node.buffer].first +
                                      address * SizeInBytes(buffer.dtype));
  };
  RunContraction(contraction, arrays, extents, at, load);
  return absl::OkStatus();
}

absl::Status Run::FillBuffer(const Fill& fill) {
  const Memory& memory = memory_[fill.buffer];
  const DType dtype = buffers_[fill.buffer].dtype;
  for (int64_t i = 0; i < memory.elements; ++i) {
    std::memcpy(memory.first + i * SizeInBytes(dtype), &fill.value.i,
                static_cast<size_t>(SizeInBytes(dtype)));
  }
  return absl::OkStatus();
}

RefOutcome Run::Outcome(const std::vector<ProgramOutput>& outputs,
                        absl::Span<const RefValue> inputs) const {
  RefOutcome outcome;
  for (const ProgramOutput& output : outputs) {
    if (const auto* view = std::get_if<View>(&output.what)) {
      RefTensor tensor;
      tensor.dtype = view->dtype;
      for (const SymExpr& e : view->sizes) tensor.sizes.push_back(Eval(e));
      for (const SymExpr& e : view->strides) tensor.strides.push_back(Eval(e));
      tensor.storage = storages_.at(view->buffer);
      tensor.offset = (memory_[view->buffer].first - tensor.storage->data()) /
                          SizeInBytes(view->dtype) +
                      Eval(view->offset);
      outcome.outputs.push_back(std::move(tensor));
    } else if (const auto* e = std::get_if<SymExpr>(&output.what)) {
      outcome.outputs.push_back(Eval(*e));
    } else {
      outcome.outputs.push_back(std::monostate());
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool tensor = std::holds_alternative<RefTensor>(inputs[i]);
    outcome.inputs.push_back(tensor ? RefValue(input_copies_[i]) : inputs[i]);
  }
  return outcome;
}

absl::Status RunStep(Run& run, const LoopNest& nest) { return run.Nest(nest); }
absl::Status RunStep(Run& run, const PlannedKernel& kernel) {
  return run.Nest(kernel.nest);
}
// The last part first: they may run in any order.
absl::Status RunStep(Run& run, const CombinedKernel& kernel) {
  for (size_t p = kernel.parts.size(); p-- > 0;) {
    absl::Status status = run.Nest(kernel.parts[p].nest);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}
absl::Status RunStep(Run& run, const LibraryCall& call) {
  return run.Call(call);
}
absl::Status RunStep(Run& run, const FlashKernel& kernel) {
  return run.Flash(kernel);
}
absl::Status RunStep(Run& run, const RowOrder& order) {
  return run.Call(CallOf(order));
}
absl::Status RunStep(Run& run, const Attention& attention) {
  return run.Call(CallOf(attention));
}
absl::Status RunStep(Run& run, const Contraction& contraction) {
  return run.Contract(contraction);
}
absl::Status RunStep(Run& run, const Fill& fill) {
  return run.FillBuffer(fill);
}

template <typename Program>
absl::StatusOr<RefOutcome> RunSteps(
    const Program& program, const std::vector<BufferPlacement>& placements,
    const SymExpr& arena, absl::Span<const GraphConstant> constants,
    absl::Span<const RefValue> inputs) {
  Run run(program.buffers, program.shapes);
  run.BindSymbols(inputs);
  absl::Status status = run.BindInputs(constants, inputs);
  if (!status.ok()) return status;
  run.Allocate(placements, program.shapes.Hint(arena) * 4 + (1 << 20));
  for (const auto& step : program.steps) {
    status = std::visit([&](const auto& s) { return RunStep(run, s); }, step);
    if (!status.ok()) return status;
  }
  return run.Outcome(program.outputs, inputs);
}

}  // namespace

absl::StatusOr<RefOutcome> RunLoops(const LoopProgram& program,
                                    absl::Span<const GraphConstant> constants,
                                    absl::Span<const RefValue> inputs) {
  return RunSteps(program, {}, 0, constants, inputs);
}

absl::StatusOr<RefOutcome> RunPlan(const KernelPlan& plan,
                                   absl::Span<const GraphConstant> constants,
                                   absl::Span<const RefValue> inputs) {
  return RunSteps(plan, plan.placements, plan.arena_bytes, constants, inputs);
}

}  // namespace kiln

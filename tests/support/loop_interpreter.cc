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

namespace kiln {

namespace {

struct Memory {
  char* first = nullptr;
  int64_t elements = 0;
};

class Run {
 public:
  Run(const std::vector<Buffer>& buffers, const ShapeEnv& shapes)
      : buffers_(buffers), shapes_(shapes), memory_(buffers.size()) {}

  absl::Status BindInputs(absl::Span<const GraphConstant> constants,
                          absl::Span<const RefValue> inputs);
  void Allocate(const std::vector<BufferPlacement>& placements,
                int64_t arena_bytes);
  absl::Status Nest(const LoopNest& nest);
  absl::Status Extern(const ExternCall& call);
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

// One kernel in the making: all reduced points of one outer point at once.
class NestRun {
 public:
  NestRun(const LoopNest& nest, const std::vector<Buffer>& buffers,
          const std::vector<Memory>& memory,
          const std::vector<int64_t>& symbols)
      : nest_(nest), buffers_(buffers), memory_(memory), symbols_(symbols) {
    for (const Axis& axis : nest.axes) {
      const int64_t extent = axis.extent.Evaluate([&](Var v) -> int64_t {
        return v.kind == Var::Kind::kSymbol ? symbols[v.index] : 0;
      });
      (axis.reduction ? reduced_ : outer_).push_back(extent);
    }
    values_.resize(nest.body.size());
    reduced_points_ = 1;
    for (const int64_t extent : reduced_) reduced_points_ *= extent;
    FindReducedNodes();
  }

  absl::Status AllPoints() {
    int64_t count = 1;
    for (const int64_t extent : outer_) count *= extent;
    for (int64_t p = 0; p < count; ++p) {
      SetDigits(p, outer_, 0);
      absl::Status status = OnePoint();
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  void SetDigits(int64_t linear, const std::vector<int64_t>& extents,
                 size_t first) {
    axes_.resize(outer_.size() + reduced_.size());
    for (size_t k = extents.size(); k-- > 0;) {
      axes_[first + k] = linear % extents[k];
      linear /= extents[k];
    }
  }

  int64_t Eval(const SymExpr& e, int64_t r) {
    return e.Evaluate([&](Var v) -> int64_t {
      switch (v.kind) {
        case Var::Kind::kSymbol:
          return symbols_[v.index];
        case Var::Kind::kAxis:
          return axes_[v.index];
        case Var::Kind::kIndirect:
          return ValueAt(v.index, r).i;
      }
      return 0;
    });
  }

  const Cell& ValueAt(ScalarId id, int64_t r) const {
    return values_[id][reduces_[id] ? static_cast<size_t>(r) : 0];
  }

  bool IndexReduces(const DimVector& index) const {
    bool reduces = false;
    for (const SymExpr& e : index) {
      if (e.is_constant()) continue;
      e.VisitVars([&](Var v) {
        reduces |= v.kind == Var::Kind::kAxis && v.index >= outer_.size();
        reduces |= v.kind == Var::Kind::kIndirect && reduces_[v.index];
      });
    }
    return reduces;
  }

  void FindReducedNodes() {
    reduces_.resize(nest_.body.size());
    for (size_t i = 0; i < nest_.body.size(); ++i) {
      const ScalarNode& node = nest_.body[i];
      reduces_[i] = IndexReduces(node.index);
      for (const ScalarId arg : node.args) {
        if (reduces_[arg]) reduces_[i] = true;
      }
      if (node.op == ScalarOp::kReduce || node.op == ScalarOp::kReduceResult) {
        reduces_[i] = false;
      }
    }
  }

  absl::StatusOr<char*> Address(BufferId buffer, const DimVector& index,
                                int64_t r) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t stride =
          buffers_[buffer].strides[d].Evaluate([&](Var v) -> int64_t {
            return v.kind == Var::Kind::kSymbol ? symbols_[v.index] : 0;
          });
      at += Eval(index[d], r) * stride;
    }
    if (memory_[buffer].first == nullptr || at < 0 ||
        at >= memory_[buffer].elements) {
      return absl::InternalError(absl::StrCat(
          buffers_[buffer].name, ": element ", at, " of ",
          memory_[buffer].elements, " in\n", ToText(nest_, buffers_, 0)));
    }
    return memory_[buffer].first + at * SizeInBytes(buffers_[buffer].dtype);
  }

  absl::Status OnePoint() {
    for (ScalarId i = 0; i < nest_.body.size(); ++i) {
      const ScalarNode& node = nest_.body[i];
      if (node.op == ScalarOp::kReduce) {
        FoldNode(i);
        continue;
      }
      if (node.op == ScalarOp::kReduceResult) {
        values_[i] = {
            totals_[node.args[0]][static_cast<size_t>(node.number.i)]};
        continue;
      }
      if (IsAlongRow(node.op)) {
        node.op == ScalarOp::kScan ? ScanNode(i) : RowNode(i);
        continue;
      }
      const int64_t points = reduces_[i] ? reduced_points_ : 1;
      values_[i].resize(static_cast<size_t>(points));
      for (int64_t r = 0; r < points; ++r) {
        if (reduces_[i]) SetDigits(r, reduced_, outer_.size());
        absl::StatusOr<Cell> cell = Compute(node, r);
        if (!cell.ok()) return cell.status();
        values_[i][static_cast<size_t>(r)] = *cell;
      }
    }
    return StoreAll();
  }

  void FoldNode(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    std::vector<Cell>& total = totals_[id];
    total = EmptyReduction(node.reduce, node.dtype);
    for (int64_t r = 0; r < reduced_points_; ++r) {
      std::vector<Cell> next;
      for (const ScalarId arg : node.args) next.push_back(ValueAt(arg, r));
      Combine(node.reduce, node.dtype, r == 0, next, total);
    }
    values_[id] = {total[0]};
  }

  // kSort and kTally, along the only reduced axis.
  void RowNode(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    reduces_[id] = true;
    std::vector<Cell> row;
    for (int64_t r = 0; r < reduced_points_; ++r)
      row.push_back(ValueAt(node.args[0], r));
    values_[id].clear();
    for (const int64_t number :
         node.op == ScalarOp::kTally
             ? Tallied(row)
             : Sorted(node.reduce, nest_.body[node.args[0]].dtype, row))
      values_[id].push_back({0, number});
  }

  void ScanNode(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    reduces_[id] = true;
    values_[id].resize(static_cast<size_t>(reduced_points_));
    std::vector<Cell> total;
    for (int64_t r = 0; r < reduced_points_; ++r) {
      const Cell next = ValueAt(node.args[0], r);
      Combine(node.reduce, node.dtype, r % reduced_.back() == 0, {&next, 1},
              total);
      values_[id][static_cast<size_t>(r)] = total[0];
    }
  }

  absl::StatusOr<Cell> Compute(const ScalarNode& node, int64_t r) {
    switch (node.op) {
      case ScalarOp::kConstant:
        return IsFloat(node.dtype) ? Cell{node.number.f, 0}
                                   : Cell{0, node.number.i};
      case ScalarOp::kIndex:
        return Cell{0, Eval(node.index[0], r)};
      case ScalarOp::kSeed:
        return Cell{0, 0};
      case ScalarOp::kRandom:
        return absl::UnimplementedError("random numbers");
      case ScalarOp::kLoad: {
        if (!node.args.empty() && ValueAt(node.args[0], r).i == 0) {
          return IsFloat(node.dtype) ? Cell{node.number.f, 0}
                                     : Cell{0, node.number.i};
        }
        absl::StatusOr<char*> at = Address(node.buffer, node.index, r);
        if (!at.ok()) return at.status();
        return ReadCell(node.dtype, *at);
      }
      default: {
        Cell args[3];
        for (size_t k = 0; k < node.args.size(); ++k) {
          args[k] = ValueAt(node.args[k], r);
        }
        if (IsIndexCheck(node.op)) return CheckedIndex(node, args);
        const DType dtype = nest_.body[node.args[0]].dtype;
        return ComputeScalar(node, dtype,
                             absl::MakeSpan(args, node.args.size()));
      }
    }
  }

  absl::Status StoreAll() {
    for (const struct Store& store : nest_.stores) {
      const bool reduces =
          reduces_[store.value] || IndexReduces(store.index) ||
          (store.mask != Store::kNoMask && reduces_[store.mask]);
      const DType dtype = buffers_[store.buffer].dtype;
      for (int64_t r = 0; r < (reduces ? reduced_points_ : 1); ++r) {
        if (reduces) SetDigits(r, reduced_, outer_.size());
        if (store.mask != Store::kNoMask && ValueAt(store.mask, r).i == 0) {
          continue;
        }
        absl::StatusOr<char*> at = Address(store.buffer, store.index, r);
        if (!at.ok()) return at.status();
        Cell value = ValueAt(store.value, r);
        if (store.mode != StoreMode::kSet)
          value = Updated(store.mode, ReadCell(dtype, *at), value);
        WriteCell(dtype, value, *at);
      }
    }
    return absl::OkStatus();
  }

  const LoopNest& nest_;
  const std::vector<Buffer>& buffers_;
  const std::vector<Memory>& memory_;
  const std::vector<int64_t>& symbols_;
  std::vector<int64_t> outer_, reduced_, axes_;
  int64_t reduced_points_ = 1;
  std::vector<bool> reduces_;              // has a value a reduced point
  std::vector<std::vector<Cell>> values_;  // of the current outer point
  absl::flat_hash_map<ScalarId, std::vector<Cell>> totals_;
};

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

absl::Status Run::Extern(const ExternCall& call) {
  std::vector<MemoryView> inputs, outputs;
  for (const View& view : call.inputs) inputs.push_back(ViewOf(view));
  for (const View& view : call.outputs) outputs.push_back(ViewOf(view));
  return RunExtern(call, inputs, outputs);
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
absl::Status RunStep(Run& run, const ExternCall& call) {
  return run.Extern(call);
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

#include "compiler/schedule/pad_in_place.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "compiler/loop/body_builder.h"
#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/pad_rows.h"

namespace kiln {
namespace {

// What a nest does that copies `source` to `padded` and adds columns.
struct Pad {
  BufferId source = 0, padded = 0;
  ScalarId fill = 0;  // a constant: the value of the added columns
};

ScalarId WithoutCasts(const LoopNest& nest, ScalarId id) {
  while (nest.body[id].op == ScalarOp::kCast) id = nest.body[id].args[0];
  return id;
}

bool IsMatrixAt(const DimVector& index) {
  return index.size() == 2 && index[0] == SymExpr::Axis(0) &&
         index[1] == SymExpr::Axis(1);
}

bool IsKnownMatrix(const Buffer& b) {
  return b.sizes.size() == 2 && b.sizes[0].is_constant() &&
         b.sizes[1].is_constant() && b.strides[0].is_constant() &&
         b.strides[1].Is(1);
}

// Whether the node is `column < columns`, where `column` is axis 1.
bool IsBelow(const LoopNest& nest, ScalarId id, const SymExpr& columns) {
  const ScalarNode& node = nest.body[id];
  if (node.op != ScalarOp::kLt) return false;
  const ScalarNode &left = nest.body[node.args[0]],
                   &right = nest.body[node.args[1]];
  const bool bounded =
      right.op == ScalarOp::kConstant
          ? columns.Is(right.number.i)
          : right.op == ScalarOp::kIndex && right.index[0] == columns;
  return bounded && left.op == ScalarOp::kIndex &&
         left.index[0] == SymExpr::Axis(1);
}

// The padding that the nest does, if it stores
// where(column < columns of source, source, constant).
std::optional<Pad> PadOf(const LoopNest& nest,
                         const std::vector<Buffer>& buffers) {
  if (nest.stores.size() != 1 || nest.axes.size() != 2) return std::nullopt;
  const Store& store = nest.stores[0];
  const Buffer& padded = buffers[store.buffer];
  if (padded.kind != BufferKind::kTemporary || !IsKnownMatrix(padded) ||
      !IsMatrixAt(store.index) || store.mask != Store::kNoMask ||
      store.mode != StoreMode::kSet) {
    return std::nullopt;
  }
  const ScalarNode& where = nest.body[WithoutCasts(nest, store.value)];
  if (where.op != ScalarOp::kWhere) return std::nullopt;
  const ScalarNode& load = nest.body[WithoutCasts(nest, where.args[1])];
  const ScalarId fill = WithoutCasts(nest, where.args[2]);
  if (load.op != ScalarOp::kLoad || load.args.size() != 1 ||
      load.args[0] != where.args[0] || !IsMatrixAt(load.index) ||
      nest.body[fill].op != ScalarOp::kConstant) {
    return std::nullopt;
  }
  const Buffer& source = buffers[load.buffer];
  if (!IsKnownMatrix(source) || source.dtype != padded.dtype ||
      !(source.sizes[0] == padded.sizes[0]) ||
      source.sizes[1].constant() >= padded.sizes[1].constant() ||
      !IsBelow(nest, where.args[0], source.sizes[1])) {
    return std::nullopt;
  }
  return Pad{load.buffer, store.buffer, fill};
}

// Whether the only reader of the buffer is one product, which has it as a factor.
bool FeedsOneProduct(const LoopProgram& program, BufferId b) {
  int readers = 0;
  bool as_factor = true;
  for (const LoopStep& step : program.steps) {
    bool reads = false;
    VisitStepBuffers(step, [&](BufferId other, bool writes) {
      reads |= other == b && !writes;
    });
    if (!reads) continue;
    ++readers;
    const auto* c = std::get_if<Contraction>(&step);
    as_factor = as_factor && c != nullptr &&
                c->form == Contraction::Form::kProduct && !c->is_batched();
    if (!as_factor) break;
    for (const ScalarNode& node : c->body)
      as_factor &= node.op != ScalarOp::kLoad || node.buffer != b;
  }
  return readers == 1 && as_factor;
}

// Whether only nests before step `at` write the buffer.
bool IsWrittenByNests(const LoopProgram& program, BufferId b, size_t at) {
  for (size_t s = 0; s < program.steps.size(); ++s) {
    bool written = false;
    VisitStepBuffers(program.steps[s], [&](BufferId other, bool writes) {
      written |= other == b && writes;
    });
    if (written &&
        (s >= at || !std::holds_alternative<LoopNest>(program.steps[s]))) {
      return false;
    }
  }
  return true;
}

// Whether no step writes the source before the product has read the padded matrix.
bool IsKeptForProduct(const LoopProgram& program, const Pad& pad) {
  for (const LoopStep& step : program.steps) {
    bool written = false, reads = false;
    VisitStepBuffers(step, [&](BufferId b, bool writes) {
      written |= b == pad.source && writes;
      reads |= b == pad.padded && !writes;
    });
    if (written) return false;
    if (reads) return true;
  }
  return false;
}

// Whether the added columns may be written into the source's memory.
bool MayHold(const LoopProgram& program, const Pad& pad, size_t at,
             bool inputs) {
  const Buffer& source = program.buffers[pad.source];
  if (source.kind == BufferKind::kTemporary)
    return IsWrittenByNests(program, pad.source, at);
  return inputs && source.kind == BufferKind::kInput && source.offset.Is(0) &&
         IsKeptForProduct(program, pad);
}

// The padding that step `at` does, if it could be done in place, given enough room.
std::optional<Pad> CandidateAt(const LoopProgram& program, size_t at,
                               bool inputs) {
  const auto* nest = std::get_if<LoopNest>(&program.steps[at]);
  if (nest == nullptr) return std::nullopt;
  const std::optional<Pad> pad = PadOf(*nest, program.buffers);
  if (!pad.has_value() || !FeedsOneProduct(program, pad->padded) ||
      !MayHold(program, *pad, at, inputs)) {
    return std::nullopt;
  }
  return pad;
}

bool HasRoom(const LoopProgram& program, const Pad& pad) {
  return program.buffers[pad.source].strides[0].constant() >=
         program.buffers[pad.padded].sizes[1].constant();
}

// Makes `nest` write only the added columns, into the source's memory.
void FillColumns(LoopNest& nest, const Pad& pad, const Buffer& source,
                 int64_t columns) {
  BodyBuilder body;
  const ScalarId fill = body.Add(ScalarNode(nest.body[pad.fill]));
  Store store = nest.stores[0];
  store.buffer = pad.source;
  store.value = body.Cast(source.dtype, fill);
  nest.axes[1].extent = columns;
  if (columns == 1) nest.axes.pop_back();
  store.index[1] =
      source.sizes[1] + (columns == 1 ? SymExpr(0) : SymExpr::Axis(1));
  nest.stores = {std::move(store)};
  nest.body = body.Take();
}

void Apply(LoopProgram& program, size_t at, const Pad& pad) {
  Buffer& source = program.buffers[pad.source];
  const Buffer& padded = program.buffers[pad.padded];
  FillColumns(std::get<LoopNest>(program.steps[at]), pad, source,
              padded.sizes[1].constant() - source.sizes[1].constant());
  source.written_sizes = source.sizes;
  source.written_strides = source.strides;
  source.sizes = padded.sizes;
  for (LoopStep& step : program.steps) {
    auto* c = std::get_if<Contraction>(&step);
    if (c == nullptr) continue;
    for (ContractionOperand& operand : c->operands) {
      if (operand.view.buffer != pad.padded) continue;
      operand.view =
          OnPaddedRows(operand.view, padded, source.strides[0].constant())
              .value();
      operand.view.buffer = pad.source;
    }
  }
}

}  // namespace

int64_t MakeRoomForPads(LoopProgram& program) {
  int64_t made = 0;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const std::optional<Pad> pad = CandidateAt(program, s, /*inputs=*/false);
    if (!pad.has_value() || HasRoom(program, *pad)) continue;
    const int64_t columns = program.buffers[pad->source].sizes[1].constant();
    const auto stride = StrideForRows(program, pad->source);
    if (columns <= kLongRow || !stride.has_value() ||
        *stride < program.buffers[pad->padded].sizes[1].constant()) {
      continue;
    }
    PadRows(program, pad->source, *stride);
    ++made;
  }
  return made;
}

int64_t PadInPlace(LoopProgram& program, bool inputs) {
  int64_t padded = 0;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const std::optional<Pad> pad = CandidateAt(program, s, inputs);
    if (!pad.has_value() || !HasRoom(program, *pad)) continue;
    const bool moves = std::all_of(
        program.steps.begin(), program.steps.end(), [&](const LoopStep& step) {
          const auto* c = std::get_if<Contraction>(&step);
          if (c == nullptr) return true;
          return std::all_of(
              c->operands.begin(), c->operands.end(),
              [&](const ContractionOperand& operand) {
                return operand.view.buffer != pad->padded ||
                       OnPaddedRows(
                           operand.view, program.buffers[pad->padded],
                           program.buffers[pad->source].strides[0].constant())
                           .has_value();
              });
        });
    if (!moves) continue;
    Apply(program, s, *pad);
    ++padded;
  }
  return padded;
}

}  // namespace kiln

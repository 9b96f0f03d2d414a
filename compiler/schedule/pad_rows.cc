#include "compiler/schedule/pad_rows.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "compiler/config/target.h"
#include "compiler/schedule/dependencies.h"

namespace kiln {
namespace {

bool IsKnown(const DimVector& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](const SymExpr& e) { return e.is_constant(); });
}

// The elements in a row of a dense buffer. 0 if it has no rows of known length.
int64_t RowLength(const Buffer& b) {
  if (!IsKnown(b.strides)) return 0;
  int64_t length = 0;
  for (size_t d = 0; d < b.sizes.size(); ++d) {
    if (!b.strides[d].Is(1) || b.sizes[d].Is(1)) continue;
    if (!b.sizes[d].is_constant()) return 0;
    length = b.sizes[d].constant();
  }
  if (length == 0) return 0;
  for (size_t d = 0; d < b.sizes.size(); ++d) {
    if (b.sizes[d].Is(1) || b.strides[d].Is(1)) continue;
    if (b.strides[d].constant() % length != 0) return 0;
  }
  return length;
}

int64_t RoundUp(int64_t x, int64_t step) {
  return (x + step - 1) / step * step;
}

// Whether the step works if the rows of `b` are `stride` apart. Nests always do: their
// accesses are indices of the buffer, not addresses.
bool AllowsStride(const LoopStep& step, BufferId b, const Buffer& buffer,
                  int64_t stride) {
  if (std::holds_alternative<LoopNest>(step)) return true;
  bool touches = false;
  VisitStepBuffers(step, [&](BufferId other, bool) { touches |= other == b; });
  if (!touches) return true;
  const auto* c = std::get_if<Contraction>(&step);
  if (c == nullptr || c->form != Contraction::Form::kProduct) return false;
  return std::all_of(
      c->operands.begin(), c->operands.end(),
      [&](const ContractionOperand& operand) {
        return operand.view.buffer != b ||
               OnPaddedRows(operand.view, buffer, stride).has_value();
      });
}

}  // namespace

int64_t RowAlignment(DType dtype) {
  return kMaxAccessBytes / SizeInBytes(dtype);
}

bool HasAlignedRows(const View& view, const Buffer& buffer) {
  const int64_t step = RowAlignment(view.dtype);
  const auto fits = [&](const SymExpr& e) {
    return e.is_constant() && e.constant() % step == 0;
  };
  if (!fits(view.offset) || !fits(buffer.offset) ||
      buffer.alignment_bytes % 16 != 0) {
    return false;
  }
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (!view.strides[d].Is(1) && !view.sizes[d].Is(1) &&
        !fits(view.strides[d]))
      return false;
  }
  return true;
}

int64_t PaddedStride(int64_t length, DType dtype) {
  const int64_t bytes = length > kLongRow ? kLineBytes : kMaxAccessBytes;
  return RoundUp(length, bytes / SizeInBytes(dtype));
}

std::optional<View> OnPaddedRows(const View& view, const Buffer& b,
                                 int64_t stride) {
  const int64_t length = RowLength(b);
  if (length == 0 || !IsKnown(view.strides) || !view.offset.is_constant())
    return std::nullopt;
  const auto moved = [&](int64_t address) {
    return address / length * stride + address % length;
  };
  View padded = view;
  int64_t last = view.offset.constant() % length;  // last column that is viewed
  padded.offset = moved(view.offset.constant());
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    const int64_t step = view.strides[d].constant();
    padded.strides[d] = moved(step);
    if (step % length == 0) continue;
    if (!view.sizes[d].is_constant()) return std::nullopt;
    last += step % length * (view.sizes[d].constant() - 1);
  }
  if (last >= length) return std::nullopt;
  return padded;
}

std::optional<int64_t> StrideForRows(const LoopProgram& program, BufferId b) {
  const Buffer& buffer = program.buffers[b];
  if (buffer.kind != BufferKind::kTemporary) return std::nullopt;
  const int64_t length = RowLength(buffer);
  const int64_t stride = PaddedStride(length, buffer.dtype);
  if (length == 0 || stride == length || !buffer.written_sizes.empty())
    return std::nullopt;
  for (const LoopStep& step : program.steps)
    if (!AllowsStride(step, b, buffer, stride)) return std::nullopt;
  return stride;
}

void PadRows(LoopProgram& program, BufferId b, int64_t stride) {
  const Buffer dense = program.buffers[b];
  for (LoopStep& step : program.steps) {
    auto* c = std::get_if<Contraction>(&step);
    if (c == nullptr) continue;
    for (ContractionOperand& operand : c->operands)
      if (operand.view.buffer == b)
        operand.view = OnPaddedRows(operand.view, dense, stride).value();
  }
  const int64_t length = RowLength(dense);
  for (size_t d = 0; d < dense.sizes.size(); ++d) {
    if (dense.sizes[d].Is(1) || dense.strides[d].Is(1)) continue;
    program.buffers[b].strides[d] =
        dense.strides[d].constant() / length * stride;
  }
}

}  // namespace kiln

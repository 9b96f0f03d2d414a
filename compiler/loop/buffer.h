#ifndef KILN_COMPILER_LOOP_BUFFER_H_
#define KILN_COMPILER_LOOP_BUFFER_H_

// Memory as loops, contractions and plans see it.

#include <cstdint>
#include <string>

#include "compiler/loop/scalar_expr.h"
#include "compiler/sym/sym_expr.h"
#include "proto/base/dtype.h"

namespace kiln {

enum class BufferKind : uint8_t {
  kInput,
  kConstant,
  kTemporary,
  kOutput,
  kCounters,  // of a plan's kernels: zero before and after each launch
};

// Named memory. A temporary is dense, except that its rows may be padded; an output
// has the strides that its caller expects. Two buffers never overlap.
struct Buffer {
  std::string name;  // "buf3"; inputs and constants as in the graph
  BufferKind kind = BufferKind::kTemporary;
  DType dtype = DType::kFloat32;
  DimVector sizes;
  DimVector strides;   // elements
  SymExpr offset = 0;  // elements, from the input's first
  uint32_t index = 0;  // of the graph input or constant
  // The address of element 0 (before `offset`) is a multiple of this. An input
  // promises it; everything else is allocated with 16 bytes or more.
  uint32_t alignment_bytes = 16;
  bool donated = false;  // an input whose memory the run may write to
  // Makes a temporary of one bool an assertion: if false is stored in it, the run
  // fails with this text. Empty: not an assertion.
  std::string assertion;
  // The sizes without the padding, if the buffer is padded in place; else empty. Not
  // part of the text.
  DimVector written_sizes;
  DimVector written_strides;
};

// Whether stores to it matter even though no step reads it.
inline bool IsKept(const Buffer& buffer) {
  return buffer.kind != BufferKind::kTemporary || !buffer.assertion.empty();
}

// A strided window on a buffer: how outputs, contractions and library calls see
// memory.
struct View {
  BufferId buffer = 0;
  DType dtype = DType::kFloat32;
  DimVector sizes;
  DimVector strides;
  SymExpr offset = 0;
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_BUFFER_H_

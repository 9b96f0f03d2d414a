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

// Named memory. Temporaries are dense, but for rows that may be further apart than
// they are long; an output has the strides its caller must see. Two buffers never
// overlap.
struct Buffer {
  std::string name;  // "buf3"; inputs and constants as in the graph
  BufferKind kind = BufferKind::kTemporary;
  DType dtype = DType::kFloat32;
  DimVector sizes;
  DimVector strides;   // elements
  SymExpr offset = 0;  // elements, from the input's first
  uint32_t index = 0;  // of the graph input or constant
  // What the address of element 0 (before `offset`) is a multiple of: an
  // input's promise; everything else is allocated on 16 bytes or more.
  uint32_t alignment_bytes = 16;
  bool donated = false;  // an input whose memory the run may write to
  // A temporary of one bool that an assertion is: where what is stored there is
  // false, the run ends with this text. Empty: none.
  std::string assertion;
  // Of what is padded in place: its own sizes, without the columns behind. Empty else,
  // and in no text.
  DimVector written_sizes;
  DimVector written_strides;
};

// Whether what is stored in it counts though no step reads it.
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

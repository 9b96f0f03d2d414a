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
  kCounters,  // counters of a plan's kernels: zero before and after each launch
};

// Named memory. A temporary is dense, except that its rows may be padded. An output has
// the strides that its caller expects. Two buffers never overlap.
struct Buffer {
  std::string name;  // "buf3"; inputs and constants as in the graph
  BufferKind kind = BufferKind::kTemporary;
  DType dtype = DType::kFloat32;
  DimVector sizes;
  DimVector strides;   // in elements
  SymExpr offset = 0;  // in elements from the input's first
  uint32_t index = 0;  // number of the graph input or constant
  // The address of element 0 (before `offset`) is a multiple of this. For an input the
  // caller guarantees it; all other buffers are allocated with 16 bytes or more.
  uint32_t alignment_bytes = 16;
  bool donated = false;  // an input whose memory the run may overwrite
  // If not empty, the temporary, a single bool, is an assertion: if false is stored in
  // it, the run fails with this text.
  std::string assertion;
  // The sizes and strides without the padding if the buffer is padded in place, otherwise
  // empty. Not part of the text.
  DimVector written_sizes;
  DimVector written_strides;
};

// Whether stores to the buffer are needed even if no step reads it.
inline bool IsKept(const Buffer& buffer) {
  return buffer.kind != BufferKind::kTemporary || !buffer.assertion.empty();
}

// A strided view of a buffer. Outputs, contractions and library calls access memory
// through views; nests do not.
struct View {
  BufferId buffer = 0;
  DType dtype = DType::kFloat32;
  DimVector sizes;
  DimVector strides;
  SymExpr offset = 0;
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_BUFFER_H_

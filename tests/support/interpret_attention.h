#ifndef KILN_TESTS_SUPPORT_INTERPRET_ATTENTION_H_
#define KILN_TESTS_SUPPORT_INTERPRET_ATTENTION_H_

#include "absl/types/span.h"
#include "compiler/schedule/library_call.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {

// The calls "attention" and "attention_backward", from their definition: in
// doubles, dropout by the numbers of the reference.
void RunAttention(const LibraryCall& call, absl::Span<const MemoryView> inputs,
                  absl::Span<const MemoryView> outputs);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_INTERPRET_ATTENTION_H_

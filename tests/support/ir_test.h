#ifndef KILN_TESTS_SUPPORT_IR_TEST_H_
#define KILN_TESTS_SUPPORT_IR_TEST_H_

// Tests of passes, written in IR text. A file holds one test or more:
//
//   // run: fold_constants, remove_dead_nodes
//   graph @g()(%x: f32[2]) -> (%y) {
//     ...
//   }
//   // check: %y = relu(%x)
//   // next: }
//   // not: constant
//
// The words of `run` are those of compiler/ir_driver.h. `check` finds the next
// line that holds its text, `next` is the line after the last one found, `not`
// stands nowhere in the result. `error` asks that it fails with a message that
// holds its text. `target` names another target than x86-64-v3,
// `options` those of the compile (compile_options_from_text.h). Blanks at the
// ends of lines do not count.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kiln {

// What is wrong, a line a test; empty when all is as written.
std::vector<std::string> RunIrTests(absl::string_view file_text);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_IR_TEST_H_

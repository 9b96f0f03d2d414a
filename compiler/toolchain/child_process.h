#ifndef KILN_COMPILER_TOOLCHAIN_CHILD_PROCESS_H_
#define KILN_COMPILER_TOOLCHAIN_CHILD_PROCESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

struct ChildResult {
  int exit_code = 0;   // 128 + n when signal n ended it
  std::string output;  // stdout and stderr together
};

// Runs `argv` (argv[0] is the program's path) with `input` on its standard
// input and waits for its end. `env` is its whole environment.
//
// Errors: INTERNAL when the system can't start it, with its reason.
absl::StatusOr<ChildResult> RunChild(const std::vector<std::string>& argv,
                                     const std::vector<std::string>& env,
                                     absl::string_view input);

}  // namespace kiln

#endif  // KILN_COMPILER_TOOLCHAIN_CHILD_PROCESS_H_

#ifndef KILN_TESTS_SUPPORT_RUN_PROGRAM_H_
#define KILN_TESTS_SUPPORT_RUN_PROGRAM_H_

#include <string>
#include <vector>

namespace kiln {

// What a program left: its exit code (-1 when a signal ended it), and what it
// wrote.
struct ProgramRun {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs words[0] with the other words as its arguments, without a terminal, and
// waits for its end. Fails the test where a sanitizer of the program's reports.
ProgramRun RunProgram(const std::vector<std::string>& words);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_RUN_PROGRAM_H_

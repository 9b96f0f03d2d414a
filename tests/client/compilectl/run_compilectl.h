#ifndef KILN_TESTS_CLIENT_COMPILECTL_RUN_COMPILECTL_H_
#define KILN_TESTS_CLIENT_COMPILECTL_RUN_COMPILECTL_H_

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace kiln {

// The program, from where tests run that have //client/compilectl among their data.
inline constexpr char kCompilectl[] = "client/compilectl/compilectl";

inline ProgramRun RunCompilectl(std::vector<std::string> words) {
  words.insert(words.begin(), std::filesystem::absolute(kCompilectl).string());
  return RunProgram(words);
}

}  // namespace kiln

#endif  // KILN_TESTS_CLIENT_COMPILECTL_RUN_COMPILECTL_H_

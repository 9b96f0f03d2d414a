// Runs the .ir files that it is given, one after the other.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/ir_test.h"

int main(int argc, char** argv) {
  int failed = 0;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto wrong = kiln::RunIrTests(text);
    for (const std::string& line : wrong) {
      std::printf("%s: %s\n", argv[i], line.c_str());
    }
    if (!wrong.empty()) ++failed;
  }
  std::printf("%d files, %d failed\n", argc - 1, failed);
  return failed == 0 && argc > 1 ? 0 : 1;
}

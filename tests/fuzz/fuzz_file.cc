#include <fstream>
#include <sstream>

#include "tests/fuzz/fuzz_target.h"

namespace kiln {

std::string FuzzFile(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

}  // namespace kiln

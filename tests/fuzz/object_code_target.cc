// Object code that a worker made: what is loaded into a process afterwards.

#include "proto/base/object_code.h"
#include "tests/fuzz/fuzz_target.h"

namespace kiln {

std::vector<std::string> FuzzSeeds() {
  return {FuzzFile("tests/fuzz/fuzz_kernel.so")};
}

}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static_cast<void>(kiln::CheckSharedObject(kiln::FuzzText(data, size)));
  return 0;
}

#ifndef KILN_TESTS_FUZZ_FUZZ_TARGET_H_
#define KILN_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

// What each NAME_target.cc defines. `./kiln fuzz` links it with libFuzzer, and an
// ordinary test with replay_main.cc.

// Feeds the bytes to the reader under test. It must not crash, hang, or break a
// promise that it CHECKs. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace kiln {

// Sound inputs to begin with, made by the code that makes the real ones.
std::vector<std::string> FuzzSeeds();

// The bytes as text.
inline absl::string_view FuzzText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// The contents of a file of this repository; empty when it cannot be read.
std::string FuzzFile(const std::string& path);

}  // namespace kiln

#endif  // KILN_TESTS_FUZZ_FUZZ_TARGET_H_

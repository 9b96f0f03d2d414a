// Before libFuzzer begins: the target's seeds go to the folder that
// KILN_FUZZ_SEEDS names, which is among its corpora.

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* folder = getenv("KILN_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  const std::vector<std::string> seeds = kiln::FuzzSeeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream(std::string(folder) + "/seed-" + std::to_string(i),
                  std::ios::binary)
        << seeds[i];
  }
  return 0;
}

// Feeds a fuzz target its seeds, every finding that was kept (the files named on
// the command line), and changed copies of both: the same ones in every run.

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace kiln {
namespace {

constexpr int kChangesEach = 300;

void Feed(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()),
                         bytes.size());
}

// One to four flipped bits, and now and then a cut or a piece that comes twice.
std::string Changed(std::string bytes, std::mt19937& random) {
  if (bytes.empty()) return bytes;
  const auto any = [&random](size_t below) { return random() % below; };
  for (size_t flips = 1 + any(4); flips > 0; --flips) {
    char& byte = bytes[any(bytes.size())];
    byte = static_cast<char>(byte ^ (1 << any(8)));
  }
  const size_t at = any(bytes.size());
  if (any(4) == 0) bytes.resize(at);
  if (any(4) == 0) bytes.insert(at, bytes.substr(0, any(64)));
  return bytes;
}

int Replay(const std::vector<std::string>& kept) {
  std::vector<std::string> inputs = FuzzSeeds();
  if (inputs.empty()) {
    fprintf(stderr, "a target without seeds is fed nothing\n");
    return 1;
  }
  for (const std::string& path : kept) inputs.push_back(FuzzFile(path));
  Feed("");
  std::mt19937 random(20260131);
  for (const std::string& input : inputs) {
    Feed(input);
    for (int i = 0; i < kChangesEach; ++i) Feed(Changed(input, random));
  }
  printf("%zu inputs, %d changes of each\n", inputs.size(), kChangesEach);
  return 0;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  return kiln::Replay({argv + 1, argv + argc});
}

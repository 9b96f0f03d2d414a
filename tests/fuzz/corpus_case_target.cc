// A line of a corpus file: what `kiln-corpus`, `compilectl explain` and
// `compilectl tune` read.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "proto/base/packed_bytes.h"
#include "proto/corpus/corpus_bytes.h"
#include "proto/corpus/corpus_case.h"
#include "tests/fuzz/fuzz_target.h"

namespace kiln {

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  for (const char* name : {"mean", "tril_indices", "native_layer_norm"}) {
    auto bytes =
        ReadCorpusBytes(absl::StrCat("tests/corpus/ops/", name, ".jsonl"));
    if (bytes.ok()) seeds.push_back(bytes->substr(0, bytes->find('\n') + 1));
  }
  return seeds;
}

}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln;
  // The reader takes files: one, over and over.
  static const std::string path = [] {
    const char* folder = getenv("TEST_TMPDIR");
    return absl::StrCat(folder == nullptr ? "/tmp" : folder, "/kiln-fuzz-",
                        getpid(), ".jsonl");
  }();
  std::ofstream(path, std::ios::binary) << FuzzText(data, size);
  static_cast<void>(ReadCorpusFile(path).status());
  unlink(path.c_str());
  // Packed ones pass this first.
  static_cast<void>(Unpack(FuzzText(data, size), size_t{1} << 20).status());
  return 0;
}

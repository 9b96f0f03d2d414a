// A configuration file.

#include <cstdlib>

#include "server/config_text.h"
#include "tests/fuzz/fuzz_target.h"

namespace kiln {

std::vector<std::string> FuzzSeeds() {
  return {FuzzFile("deploy/kilnd.example.toml"), ConfigText(Config()),
          "[[access]]\nwho = \"uid:1\"\nrole = \"reader\"\n"
          "namespaces = [\"*\"]\n"};
}

}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln;
  Config config;
  if (!ReadConfigText(FuzzText(data, size), "fuzz", config).ok()) return 0;
  static_cast<void>(CheckConfig(config));
  // What was read is written so that it is read back.
  const std::string text = ConfigText(config);
  Config again;
  if (!ReadConfigText(text, "written", again).ok()) abort();
  if (ConfigText(again) != text) abort();
  return 0;
}

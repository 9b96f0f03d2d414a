// Replies of a Redis that lies, in pieces.

#include "cache/far/resp.h"
#include "tests/fuzz/fuzz_target.h"

namespace kiln {

std::vector<std::string> FuzzSeeds() {
  return {"+OK\r\n-MOVED 1 h:2\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n*0\r\n",
          "*2\r\n*1\r\n:1\r\n*2\r\n$0\r\n\r\n-no\r\n:9\r\n",
          EncodeCommand({"HSET", "kiln:2:ab:index", "id", "hint"})};
}

}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln;
  if (size == 0) return 0;
  const size_t piece = 1 + data[0] % 64;
  const absl::string_view bytes = FuzzText(data + 1, size - 1);
  RespReader reader({.max_bytes = 1 << 16, .max_values = 1024});
  for (size_t at = 0; at < bytes.size(); at += piece) {
    reader.Append(bytes.substr(at, piece));
    while (true) {
      const auto reply = reader.Next();
      if (!reply.ok()) return 0;
      if (!reply->has_value()) break;
    }
  }
  return 0;
}

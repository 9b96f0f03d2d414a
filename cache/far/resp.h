#ifndef KILN_CACHE_FAR_RESP_H_
#define KILN_CACHE_FAR_RESP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln {

// The Redis protocol, version 2 (RESP2): commands out, replies in.

// One reply. `items` may hold replies of any kind, errors too.
struct RespValue {
  enum class Kind { kSimple, kError, kInteger, kBulk, kNull, kArray };

  Kind kind = Kind::kNull;
  std::string text;  // of kSimple, kError and kBulk
  int64_t integer = 0;
  std::vector<RespValue> items;

  bool is(Kind other) const { return kind == other; }
};

// A command as the server takes it: an array of bulk strings.
std::string EncodeCommand(absl::Span<const absl::string_view> words);

struct RespLimits {
  // Bytes of one reply, headers included.
  int64_t max_bytes = int64_t{64} << 20;
  // Values in one reply, arrays and their items alike. Each costs about 80
  // bytes of memory, however short it is on the wire.
  int64_t max_values = int64_t{1} << 17;
  // Arrays within arrays.
  int max_depth = 4;
};

// Reads replies from a stream of bytes that come in pieces.
//
// The server is not trusted: memory grows with the bytes that arrived, never with
// what a header announces, and a reply over a limit is refused at its header.
// After an error the stream has no meaning any more. One thread.
class RespReader {
 public:
  explicit RespReader(const RespLimits& limits) : limits_(limits) {}

  void Append(absl::string_view bytes) {
    buffer_.append(bytes.data(), bytes.size());
  }

  // The next whole reply; empty when more bytes are needed.
  //
  // DATA_LOSS ARTIFACT_CORRUPT: not RESP2, or over a limit.
  absl::StatusOr<std::optional<RespValue>> Next();

 private:
  // An array that still lacks items.
  struct Open {
    RespValue array;
    int64_t missing;
  };

  // The next value's own header and bytes, without items; empty when more bytes
  // are needed. `items` is the announced number for an array, else 0.
  absl::StatusOr<std::optional<RespValue>> ReadOne(int64_t& items);
  absl::StatusOr<std::optional<absl::string_view>> ReadLine();
  absl::StatusOr<std::optional<RespValue>> ReadBulk(int64_t length,
                                                    size_t header);
  absl::Status Count(int64_t bytes);
  void Consume(size_t bytes);

  const RespLimits limits_;
  std::string buffer_;
  size_t at_ = 0;  // in buffer_: what is before it was read
  // Of the reply that is being read.
  std::vector<Open> open_;
  int64_t bytes_ = 0;
  int64_t values_ = 0;
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_RESP_H_

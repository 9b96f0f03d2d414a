#ifndef KILN_PROTO_BASE_PARSE_BOUNDED_H_
#define KILN_PROTO_BASE_PARSE_BOUNDED_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace kiln {

// What a message of a process that may lie has at most, messages in it included:
// some 300 MiB of memory. The plan of a graph of 10,000 nodes has a tenth.
inline constexpr int64_t kMaxFieldsParsed = 2'000'000;

// Parses `bytes` into `into`, once their fields are counted (count_fields.h). False,
// and nothing was made, when they are no such message or have more fields than
// kMaxFieldsParsed.
bool ParseBounded(absl::string_view bytes, google::protobuf::Message& into);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_PARSE_BOUNDED_H_

#ifndef KILN_TESTS_SUPPORT_RAW_HTTP2_H_
#define KILN_TESTS_SUPPORT_RAW_HTTP2_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// What a client of HTTP/2 sends first.
std::string Http2Preface();

// The bytes of a connection on which a call of `path` ("/kiln.wire.Service/Method")
// has begun and never ends: its message is said to be `announced` bytes, and of those
// come as many as a client may send before it hears of the server, some 64 KiB.
std::string UnfinishedCall(absl::string_view path, uint32_t announced);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_RAW_HTTP2_H_

#ifndef KILN_SERVER_BUILD_IDENTITY_H_
#define KILN_SERVER_BUILD_IDENTITY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "cache/compile_key.h"
#include "proto/compile_service.pb.h"
#include "proto/worker.pb.h"

namespace kiln {

// What a worker's hello means to others.

// "g++ 12.2.0, nvrtc 13.0": the compilers that a worker found, in its order;
// "none".
std::string ToolchainText(const wire::HelloReply& hello);

// Those of them that build for a target: "nvrtc 13.0"; "none".
std::string ToolchainFor(const wire::HelloReply& hello,
                         const wire::Target& target);

// The parts of every compile key that say who compiles: the compiler, and what
// it builds with.
BuildIdentity BuildIdentityOf(const wire::HelloReply& hello);

// What Describe answers but for keys: with the targets for which a compiler was
// found.
wire::DescribeReply DescriptionOf(const wire::HelloReply& hello,
                                  absl::string_view version,
                                  int64_t max_message_bytes);

}  // namespace kiln

#endif  // KILN_SERVER_BUILD_IDENTITY_H_

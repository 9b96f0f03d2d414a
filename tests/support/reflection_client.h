#ifndef KILN_TESTS_SUPPORT_REFLECTION_CLIENT_H_
#define KILN_TESTS_SUPPORT_REFLECTION_CLIENT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.pb.h"

namespace kiln {

// What gRPC's reflection tells at `address` ("unix:/path", "127.0.0.1:7117").
// Errors: the call's, or the one that reflection answered.

absl::StatusOr<std::vector<std::string>> ServicesAt(const std::string& address);

// The file that declares `symbol` ("grpc.health.v1.Health").
absl::StatusOr<google::protobuf::FileDescriptorProto> FileAt(
    const std::string& address, const std::string& symbol);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_REFLECTION_CLIENT_H_

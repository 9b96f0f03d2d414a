#ifndef KILN_TESTS_SUPPORT_DAEMON_STUBS_H_
#define KILN_TESTS_SUPPORT_DAEMON_STUBS_H_

#include <memory>

#include "proto/admin_service.grpc.pb.h"
#include "proto/compile_service.grpc.pb.h"
#include "tests/support/test_daemon.h"

namespace kiln {

// gRPC's stubs over the channel of a test's client. Their headers are long to
// read: only tests that make such calls include this.

inline std::unique_ptr<wire::CompileService::Stub> CompileStub(
    const TestClient& client) {
  return wire::CompileService::NewStub(client.channel());
}

inline std::unique_ptr<wire::AdminService::Stub> AdminStub(
    const TestClient& client) {
  return wire::AdminService::NewStub(client.channel());
}

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_DAEMON_STUBS_H_

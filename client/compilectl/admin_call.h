#ifndef KILN_CLIENT_COMPILECTL_ADMIN_CALL_H_
#define KILN_CLIENT_COMPILECTL_ADMIN_CALL_H_

#include "absl/status/statusor.h"
#include "client/compilectl/commands.h"
#include "grpcpp/grpcpp.h"
#include "proto/admin_service.grpc.pb.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"

namespace kiln {

// Makes one unary call of AdminService, with the client's timeout. A plain TCP port does
// not have this service; then the error says which port to use.
//   AdminCall<wire::JobsReply>(daemon, &wire::AdminService::Stub::Jobs, request)
template <typename Reply, typename Request>
absl::StatusOr<Reply> AdminCall(
    const AdminClient& daemon,
    grpc::Status (wire::AdminService::Stub::*method)(grpc::ClientContext*,
                                                     const Request&, Reply*),
    const Request& request) {
  const auto stub = wire::AdminService::NewStub(daemon.channel());
  grpc::ClientContext context;
  SetDeadline(context, SteadyIn(daemon.timeout()));
  Reply reply;
  const grpc::Status status = ((*stub).*method)(&context, request, &reply);
  const absl::Status outcome = StatusOfCall(status, context, "kilnd");
  if (absl::IsUnimplemented(outcome) && !ReasonOf(outcome).has_value()) {
    return absl::UnimplementedError(
        "kilnd: a plain TCP port has no admin service; use the daemon's Unix "
        "socket, or TLS with an admin's token or certificate");
  }
  if (!outcome.ok()) return outcome;
  return reply;
}

// The same for a method that answers in pages. Calls `take` with each page, until there
// are no more or `take` returns false.
template <typename Reply, typename Request, typename Take>
absl::Status EachPage(const AdminClient& daemon,
                      grpc::Status (wire::AdminService::Stub::*method)(
                          grpc::ClientContext*, const Request&, Reply*),
                      Request request, Take take) {
  while (true) {
    ASSIGN_OR_RETURN(const Reply page,
                     AdminCall<Reply>(daemon, method, request));
    if (!take(page) || page.next().empty()) return absl::OkStatus();
    request.set_after(page.next());
  }
}

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_ADMIN_CALL_H_

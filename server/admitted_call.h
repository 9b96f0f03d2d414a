#ifndef KILN_SERVER_ADMITTED_CALL_H_
#define KILN_SERVER_ADMITTED_CALL_H_

#include "grpcpp/generic/async_generic_service.h"
#include "server/connection_watch.h"
#include "server/raw_methods.h"

namespace kiln {

// A generic call of a caller who may call: reads its message, and then is a call of
// `method` like one that gRPC brings itself. Whoever calls this decides before
// anything is read, which gRPC leaves no room for in a registered method. Deletes
// itself, and gives `watched` up then; `method` and the context outlive it.
grpc::ServerGenericBidiReactor* NewAdmittedCall(
    RawMethods::Context* context, const RawMethods::Unary& method,
    ConnectionWatch::WatchedCall watched);
grpc::ServerGenericBidiReactor* NewAdmittedCall(
    RawMethods::Context* context, const RawMethods::Stream& method,
    ConnectionWatch::WatchedCall watched);

}  // namespace kiln

#endif  // KILN_SERVER_ADMITTED_CALL_H_

#ifndef KILN_TESTS_SUPPORT_RAW_CALL_H_
#define KILN_TESTS_SUPPORT_RAW_CALL_H_

#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"

namespace kiln {

// Sends `bytes` as the request of the unary `method`
// ("/kiln.wire.Service/Method") and waits. `reply` gets the answer's bytes.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                     grpc::ClientContext& context, const std::string& method,
                     const std::string& bytes, std::string& reply);

// Begins a call of `method` of which no message ever comes, and waits for what is said
// to it.
grpc::Status CallWithoutMessage(const std::shared_ptr<grpc::Channel>& channel,
                                grpc::ClientContext& context,
                                const std::string& method);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_RAW_CALL_H_

#ifndef KILN_SERVER_RAW_METHODS_H_
#define KILN_SERVER_RAW_METHODS_H_

#include <functional>
#include <map>
#include <string>

#include "grpcpp/grpcpp.h"

namespace kiln {

// Methods of services by their paths, "/kiln.wire.AdminService/Stats", for a door that
// is no registered service's. Functions, since each is a method of another class.
struct RawMethods {
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Unary =
      std::function<grpc::ServerUnaryReactor*(Context*, const Bytes*, Bytes*)>;
  using Stream =
      std::function<grpc::ServerWriteReactor<Bytes>*(Context*, const Bytes*)>;

  std::map<std::string, Unary> unary;
  std::map<std::string, Stream> streams;
};

}  // namespace kiln

#endif  // KILN_SERVER_RAW_METHODS_H_

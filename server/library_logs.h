#ifndef KILN_SERVER_LIBRARY_LOGS_H_
#define KILN_SERVER_LIBRARY_LOGS_H_

namespace kiln {

// From now on what gRPC and protobuf say goes to our log, as `grpc.said` and
// `protobuf.said`; without this they write to standard error themselves, what a stranger
// chose included (a server name of a TLS handshake) and a line for each try. Their
// errors are bounded warnings (bounded_log.h), since strangers cause most; what
// GRPC_VERBOSITY asks for beyond errors is written as it comes.
void TakeLibraryLogs();

}  // namespace kiln

#endif  // KILN_SERVER_LIBRARY_LOGS_H_

#ifndef KILN_TESTS_BENCH_BENCH_DAEMON_H_
#define KILN_TESTS_BENCH_BENCH_DAEMON_H_

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/compile_service.grpc.pb.h"

namespace kiln {

// What benchmarks that ask private daemons share.

// Starts words[0], its stderr in the file `log` (empty: this one's); -1 when there is
// no process left.
pid_t Spawn(const std::vector<std::string>& words, const std::string& log = "");
// SIGTERM, and waits for the end.
void End(pid_t pid);

// A channel to a Unix socket once somebody answers there; null after 20 seconds.
std::shared_ptr<grpc::Channel> ConnectTo(const std::string& socket);

// y = x + constant, the constant of so many bytes, which give the artifact its
// size. Another `variant`, another graph.
wire::CompileRequest RequestWithConstant(int bytes, int variant = 0);
// What looks for its artifact.
wire::LookupRequest LookupOf(const wire::CompileRequest& request);

// Compiles; the artifact's bytes, 0 when it failed, which is told on stderr.
size_t CompileAt(wire::CompileService::Stub& daemon,
                 const wire::CompileRequest& request);

// "x" of "--NAME=x" among the arguments; empty when it is not there.
std::string ArgumentNamed(int argc, char** argv, const std::string& name);
// Its number; `otherwise` when it is not there.
int NumberNamed(int argc, char** argv, const std::string& name, int otherwise);

}  // namespace kiln

#endif  // KILN_TESTS_BENCH_BENCH_DAEMON_H_

#include "tests/bench/bench_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "proto/key/request_digest.h"

namespace kiln {

pid_t Spawn(const std::vector<std::string>& words, const std::string& log) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (!log.empty())
    dup2(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : words)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

void End(pid_t pid) {
  kill(pid, SIGTERM);
  waitpid(pid, nullptr, 0);
}

std::shared_ptr<grpc::Channel> ConnectTo(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  auto channel = grpc::CreateCustomChannel(
      "unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
  const auto deadline =
      std::chrono::system_clock::now() + std::chrono::seconds(20);
  return channel->WaitForConnected(deadline) ? channel : nullptr;
}

wire::CompileRequest RequestWithConstant(int bytes, int variant) {
  wire::CompileRequest request;
  request.mutable_target()->mutable_cpu()->set_level("x86-64-v2");
  wire::Graph& graph = *request.mutable_graph();
  wire::TensorMeta meta;
  meta.set_dtype(wire::DTYPE_FLOAT32);
  meta.set_device(wire::DEVICE_TYPE_CPU);
  meta.add_sizes()->set_value(bytes / 4);
  meta.add_strides()->set_value(1);
  wire::Input& input = *graph.add_inputs();
  input.set_name("x");
  *input.mutable_tensor() = meta;
  wire::Constant& constant = *graph.add_constants();
  constant.set_name("c");
  *constant.mutable_tensor() = meta;
  for (int i = 0; i < bytes; ++i)
    constant.mutable_data()->push_back(static_cast<char>((i * 37) & 0x3f));
  (*constant.mutable_data())[0] = static_cast<char>(variant & 0x3f);
  wire::Node& node = *graph.add_nodes();
  node.set_op("aten.add.Tensor");
  node.add_args()->set_value(0);
  node.add_args()->set_value(1);
  *node.add_results() = meta;
  graph.add_outputs()->set_value(2);
  return request;
}

wire::LookupRequest LookupOf(const wire::CompileRequest& request) {
  wire::LookupRequest lookup;
  const auto canonical = CanonicalizeRequest(request);
  if (canonical.ok())
    lookup.set_request_digest(canonical->digest.total.ToBytes());
  *lookup.mutable_target() = request.target();
  return lookup;
}

size_t CompileAt(wire::CompileService::Stub& daemon,
                 const wire::CompileRequest& request) {
  grpc::ClientContext context;
  const auto stream = daemon.Compile(&context, request);
  wire::CompileEvent event;
  while (stream->Read(&event)) {
  }
  if (const grpc::Status s = stream->Finish(); !s.ok()) {
    std::fprintf(stderr, "compile: %s\n", s.error_message().c_str());
    return 0;
  }
  return event.result().artifact().ByteSizeLong();
}

std::string ArgumentNamed(int argc, char** argv, const std::string& name) {
  const std::string prefix = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text.rfind(prefix, 0) == 0) return text.substr(prefix.size());
  }
  return "";
}

int NumberNamed(int argc, char** argv, const std::string& name, int otherwise) {
  const std::string text = ArgumentNamed(argc, argv, name);
  return text.empty() ? otherwise : std::stoi(text);
}

}  // namespace kiln

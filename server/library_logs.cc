#include "server/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/bounded_log.h"
#include "proto/base/log.h"

namespace kiln {
namespace {

// "ssl_transport_security.cc:1846".
std::string Place(absl::string_view file, int line) {
  const size_t folder = file.rfind('/');
  if (folder != absl::string_view::npos) file.remove_prefix(folder + 1);
  return absl::StrCat(file, ":", line);
}

void TakeFromGrpc(gpr_log_func_args* said) {
  const std::string place = Place(said->file, said->line);
  if (said->severity == GPR_LOG_SEVERITY_ERROR) {
    LogBounded("grpc.said", place, said->message);
  } else {
    LogInfo("grpc.said", {{"from", place}, {"text", said->message}});
  }
}

void TakeFromProtobuf(google::protobuf::LogLevel level, const char* file,
                      int line, const std::string& message) {
  const std::string place = Place(file, line);
  if (level == google::protobuf::LOGLEVEL_FATAL) {  // it ends the process
    LogError("protobuf.said", {{"from", place}, {"text", message}});
  } else if (level == google::protobuf::LOGLEVEL_INFO) {
    LogInfo("protobuf.said", {{"from", place}, {"text", message}});
  } else {
    LogBounded("protobuf.said", place, message);
  }
}

}  // namespace

void TakeLibraryLogs() {
  gpr_set_log_function(TakeFromGrpc);
  google::protobuf::SetLogHandler(TakeFromProtobuf);
}

}  // namespace kiln

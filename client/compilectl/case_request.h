#ifndef KILN_CLIENT_COMPILECTL_CASE_REQUEST_H_
#define KILN_CLIENT_COMPILECTL_CASE_REQUEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/compile_service.pb.h"

namespace kiln {

// The graph and the device that a command is about.
struct CaseOptions {
  // A corpus file: "gpt2.jsonl" (its first case), "gpt2.jsonl:gpt2_train.bwd1".
  std::string subject;
  std::string device = "cpu";  // or "cuda"
  std::string arch;  // "sm_90", "x86-64-v3"; empty: sm_90, this machine's
  std::string cache_namespace;  // empty: any for a key, "default" for a request
};

// The request that a session would make for that graph.
//
// Errors: those of TargetOf; NOT_FOUND if the file or the case does not exist;
// BAD_OPTION if the subject is not the name of a corpus file.
absl::StatusOr<wire::CompileRequest> RequestOf(const CaseOptions& options);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_CASE_REQUEST_H_

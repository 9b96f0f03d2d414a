#ifndef KILN_CLIENT_COMPILECTL_CASE_REQUEST_H_
#define KILN_CLIENT_COMPILECTL_CASE_REQUEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/compile_service.pb.h"

namespace kiln {

// A graph that a command is asked about, and for which device.
struct CaseOptions {
  // A corpus file: "gpt2.jsonl" (its first case), "gpt2.jsonl:gpt2_train.bwd1".
  std::string subject;
  std::string device = "cpu";  // or "cuda"
  std::string arch;  // "sm_90", "x86-64-v3"; empty: sm_90, this machine's
  std::string cache_namespace;  // empty: a key's is any, a request's "default"
};

// The request that a session makes for that graph.
//
// NOT_FOUND for a file or a case that is not there; BAD_OPTION for a subject that
// names no corpus file; of TargetOf.
absl::StatusOr<wire::CompileRequest> RequestOf(const CaseOptions& options);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_CASE_REQUEST_H_

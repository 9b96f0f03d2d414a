#ifndef KILN_CLIENT_CORPUS_RUNNER_CHECK_EXPECT_H_
#define KILN_CLIENT_CORPUS_RUNNER_CHECK_EXPECT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/corpus_runner/plan_figures.h"
#include "proto/artifact.pb.h"
#include "proto/compile_service.pb.h"

namespace kiln {

// What a corpus case expects of its compile (CorpusCase.expect):
//
//   scatter_upon_const_matches   counter scatter_upon_const_tensor
//   inplace_padding              counter of that name
//   num_bytes_accessed           counter of that name
//   num_bytes_accessed_at_least  the same, as a lower bound
//   kernels                      launches of generated kernels
//   buffer                       {size, stride, allocated} of some buffer
//   options                      what the case is compiled with
//
// A counter that the artifact does not have counts as 0.

// Puts expect's `options` into `options`. `expect` may be empty.
//
// Errors:
//   UNSUPPORTED_OP  an option that the wire has no field for, by its name
absl::Status ApplyExpectedOptions(const std::string& expect,
                                  wire::CompileOptions& options);

// The differences in words, "kernels: found 3, expected 1", in the order of the
// fields' names. A field that is not in the list above is a difference too, so that no
// expectation is ignored. Empty: all is as expected. Pure.
std::vector<std::string> ExpectDifferences(const std::string& expect,
                                           const wire::Artifact& artifact,
                                           const PlanFigures& figures);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_CHECK_EXPECT_H_

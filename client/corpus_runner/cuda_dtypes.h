#ifndef KILN_CLIENT_CORPUS_RUNNER_CUDA_DTYPES_H_
#define KILN_CLIENT_CORPUS_RUNNER_CUDA_DTYPES_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "proto/base/dtype.h"
#include "proto/corpus/corpus_case.h"

namespace kiln {

// Results that PyTorch gives in another dtype on CUDA than on the CPU, which
// the corpus was recorded on: case -> number of the output -> dtype.
using CudaDTypes = std::map<std::string, std::map<int, DType>>;

// Reads what tests/corpus/record_cuda_dtypes.py writes.
//
// Errors:
//   NOT_FOUND        no such file
//   MALFORMED_GRAPH  not such a file, or a dtype that Kiln has not
absl::StatusOr<CudaDTypes> ReadCudaDTypes(const std::string& path);

// Gives the case's outputs CUDA's dtypes. Their values stay those that the CPU
// gave, in its dtype and with its tolerance.
//
// Errors:
//   MALFORMED_GRAPH  an output that is no tensor, or a dtype that does not hold
//                    all values of the recorded one
absl::Status ApplyCudaDTypes(const CudaDTypes& dtypes, CorpusCase& test_case);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_CUDA_DTYPES_H_

#ifndef KILN_CLIENT_CORPUS_RUNNER_CUDA_DTYPES_H_
#define KILN_CLIENT_CORPUS_RUNNER_CUDA_DTYPES_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "proto/base/dtype.h"
#include "proto/corpus/corpus_case.h"

namespace kiln {

// The corpus was recorded on the CPU. These are the results for which PyTorch on CUDA
// returns another dtype: case -> index of the output -> dtype.
using CudaDTypes = std::map<std::string, std::map<int, DType>>;

// Reads a file that tests/corpus/record_cuda_dtypes.py wrote.
//
// Errors:
//   NOT_FOUND        the file does not exist
//   MALFORMED_GRAPH  the file is not of that form, or has a dtype that Kiln lacks
absl::StatusOr<CudaDTypes> ReadCudaDTypes(const std::string& path);

// Sets the expected dtypes of the case's outputs to CUDA's. The expected values and their
// tolerance stay those of the CPU.
//
// Errors:
//   MALFORMED_GRAPH  an output is not a tensor, or CUDA's dtype cannot represent all
//                    values of the recorded one
absl::Status ApplyCudaDTypes(const CudaDTypes& dtypes, CorpusCase& test_case);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_CUDA_DTYPES_H_

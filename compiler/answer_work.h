#ifndef KILN_COMPILER_ANSWER_WORK_H_
#define KILN_COMPILER_ANSWER_WORK_H_

#include <memory>
#include <string>

#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/stopwatch.h"
#include "proto/worker.pb.h"

namespace kiln {

// The tools of one worker process.
struct WorkBench {
  std::unique_ptr<Toolchain> host;   // C++ for the CPU
  std::unique_ptr<Toolchain> nvrtc;  // CUDA
  std::unique_ptr<Stopwatch> stopwatch;
  std::string build_identity;  // 32 bytes: SHA-256 of the compiler's sources
};

// Answers one request: a greeting, a graph to plan, a unit to build or a kernel to
// measure. Every failure becomes a WorkError in the reply, and the worker goes on.
//
// Not thread-safe. State that is kept between requests (a loaded NVRTC) does not
// change any answer.
wire::WorkReply AnswerWork(WorkBench& bench, const wire::WorkRequest& request);

}  // namespace kiln

#endif  // KILN_COMPILER_ANSWER_WORK_H_

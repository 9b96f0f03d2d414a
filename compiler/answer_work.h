#ifndef KILN_COMPILER_ANSWER_WORK_H_
#define KILN_COMPILER_ANSWER_WORK_H_

#include <memory>
#include <string>

#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/stopwatch.h"
#include "proto/worker.pb.h"

namespace kiln {

// What one worker process has at hand.
struct WorkBench {
  std::unique_ptr<Toolchain> host;   // C++ for the CPU
  std::unique_ptr<Toolchain> nvrtc;  // CUDA
  std::unique_ptr<Stopwatch> stopwatch;
  std::string build_identity;  // 32 bytes: SHA-256 of the compiler's sources
};

// Answers one request: says hello, plans a graph, builds a unit, measures a
// kernel. Every failure is a WorkError in the reply; the worker lives on.
//
// One thread. What it keeps between requests (a loaded NVRTC) changes no
// answer.
wire::WorkReply AnswerWork(WorkBench& bench, const wire::WorkRequest& request);

}  // namespace kiln

#endif  // KILN_COMPILER_ANSWER_WORK_H_

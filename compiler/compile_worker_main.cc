// kiln-worker: one compile process. Requests come in frames on descriptor 3 and
// are answered one at a time, in order (proto/worker.proto). Ends with 0 when
// the stream ends, with 1 when what comes is not a request.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "compiler/answer_work.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "proto/base/digest.h"
#include "proto/base/frame.h"

namespace kiln {
namespace {

constexpr int kSocketFd = 3;

std::string Environment(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != nullptr ? value : otherwise;
}

std::string OwnDigest() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return Sha256Of(bytes.str()).ToBytes();
}

WorkBench MakeBench() {
  const std::string path = Environment("PATH", "/usr/local/bin:/usr/bin:/bin");
  NvrtcConfig nvrtc;
  for (absl::string_view folder : absl::StrSplit(
           Environment("KILN_CUDA_LIBRARY_PATH", ""), ':', absl::SkipEmpty())) {
    nvrtc.library_dirs.emplace_back(folder);
  }
  for (std::string& folder : UsualCudaFolders())
    nvrtc.library_dirs.push_back(std::move(folder));
  WorkBench bench;
  bench.host = MakeHostCcToolchain({.compiler = Environment("KILN_HOST_CC", ""),
                                    .search_path = path,
                                    .scratch_dir = Environment("TMPDIR", ".")});
  bench.nvrtc = MakeNvrtcToolchain(std::move(nvrtc));
  bench.build_identity = OwnDigest();
  return bench;
}

int Serve() {
  if (fcntl(kSocketFd, F_SETFD, FD_CLOEXEC) != 0) {
    std::fprintf(stderr,
                 "kiln-worker: descriptor 3 is not open; kilnd and clients "
                 "start this program, people do not\n");
    return 2;
  }
  WorkBench bench = MakeBench();
  while (true) {
    const absl::StatusOr<std::string> bytes = ReadFrame(kSocketFd);
    if (!bytes.ok()) return absl::IsUnavailable(bytes.status()) ? 0 : 1;
    wire::WorkRequest request;
    if (!request.ParseFromString(*bytes)) return 1;
    const wire::WorkReply reply = AnswerWork(bench, request);
    if (!WriteFrame(kSocketFd, reply.SerializeAsString()).ok()) return 0;
  }
}

}  // namespace
}  // namespace kiln

int main() { return kiln::Serve(); }

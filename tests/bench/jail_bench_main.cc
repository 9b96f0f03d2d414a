// What the jail costs a cold compile: one unit built by turns in this process and
// in workers at each level. Prints medians of wall time, the ratio to the first,
// and what a worker's start takes.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"
#include "proto/jail/jailed_child.h"
#include "proto/worker.pb.h"

namespace kiln {
namespace {

constexpr int kRounds = 40;

// Some hundred milliseconds of g++, as a unit of a model takes.
std::string Source(int round) {
  std::string text = absl::StrCat("// ", round, "\n");
  for (int k = 0; k < 12; ++k) {
    absl::StrAppend(
        &text,
        "extern \"C\" __attribute__((visibility(\"default\"))) void kiln_", k,
        "(float* a, const float* b, long n) {\n"
        "  for (long i = 0; i < n; ++i) {\n"
        "    float s = 0;\n"
        "    for (long j = 0; j < 64; ++j) s += a[i * 64 + j] * b[j * ",
        k + 1, "];\n    a[i] = s > 0 ? s : s * 0.01f;\n  }\n}\n");
  }
  return text;
}

double MedianMs(std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2];
}

double MsSince(absl::Time begin) {
  return absl::ToDoubleMilliseconds(absl::Now() - begin);
}

absl::StatusOr<std::unique_ptr<JailedChild>> StartWorker(
    const std::string& program, const std::string& folder, JailLevel level) {
  JailedChildOptions options = {.program = program,
                                .scratch_prefix = folder + "/worker"};
  options.jail.levels = {.weakest = level, .strongest = level};
  options.jail.memory_bytes = int64_t{16} << 30;
  options.jail.cpu_seconds = 1200;
  return JailedChild::Start(std::move(options), absl::Minutes(1));
}

absl::StatusOr<double> BuildIn(JailedChild& worker, const Target& target,
                               int round) {
  wire::WorkRequest request;
  wire::TranslationUnit& unit = *request.mutable_build()->mutable_unit();
  unit.set_source(Source(round));
  for (const std::string& flag : UnitFlags(target)) unit.add_flags(flag);
  request.mutable_build()->mutable_target()->mutable_cpu()->set_level(
      target.name);
  const absl::Time begin = absl::Now();
  RETURN_IF_ERROR(WriteFrame(worker.socket_fd(), request.SerializeAsString()));
  ASSIGN_OR_RETURN(const std::string bytes, ReadFrame(worker.socket_fd()));
  const double ms = MsSince(begin);
  wire::WorkReply reply;
  if (!reply.ParseFromString(bytes) || !reply.has_build()) {
    return absl::InternalError(reply.error().message());
  }
  return ms;
}

absl::Status Measure(const std::string& program, const std::string& folder) {
  const Target target = {.kind = TargetKind::kCpu, .name = "x86-64-v3"};
  const auto own = MakeHostCcToolchain({.scratch_dir = folder});
  std::map<JailLevel, std::unique_ptr<JailedChild>> workers;
  for (const JailLevel level :
       {JailLevel::kLimits, JailLevel::kLandlock, JailLevel::kNamespaces}) {
    std::vector<double> starts;
    for (int i = 0; i < kRounds / 4; ++i) {
      const absl::Time begin = absl::Now();
      ASSIGN_OR_RETURN(workers[level], StartWorker(program, folder, level));
      starts.push_back(MsSince(begin));
    }
    std::printf("start, %s: %.1f ms\n",
                std::string(JailLevelName(level)).c_str(), MedianMs(starts));
  }
  std::vector<double> bare;
  std::map<JailLevel, std::vector<double>> jailed;
  for (int round = 0; round < kRounds; ++round) {
    const absl::Time begin = absl::Now();
    RETURN_IF_ERROR(own->Build(Source(round), UnitFlags(target)).status());
    bare.push_back(MsSince(begin));
    for (auto& [level, worker] : workers) {
      ASSIGN_OR_RETURN(const double ms, BuildIn(*worker, target, round));
      jailed[level].push_back(ms);
    }
  }
  std::printf("build, no jail: %.1f ms\n", MedianMs(bare));
  for (const auto& [level, ms] : jailed) {
    std::printf("build, %s: %.1f ms, %.3f\n",
                std::string(JailLevelName(level)).c_str(), MedianMs(ms),
                MedianMs(ms) / MedianMs(bare));
  }
  return absl::OkStatus();
}

int Main(const std::string& program) {
  std::string folder = "/tmp/kiln-jail-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const absl::Status status = Measure(program, folder);
  std::filesystem::remove_all(folder);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return argc == 2 ? kiln::Main(argv[1]) : 2; }

// What the jail costs a cold compile: one unit, and then a whole graph of the corpus,
// compiled by turns in this process and in workers at each level, there with the
// envelope and the signature of its artifact. Prints medians of wall time, the ratio
// to the first, and what a worker's start takes.
//
//   jail_bench KILN_WORKER FILE.jsonl
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "compiler/answer_work.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "proto/base/assemble.h"
#include "proto/base/frame.h"
#include "proto/base/seal.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_case.h"
#include "proto/jail/jailed_child.h"
#include "proto/key/request_digest.h"
#include "proto/worker.pb.h"

namespace kiln {
namespace {

constexpr int kRounds = 40;
constexpr int kGraphRounds = 15;

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

// Asks a worker, or what stands in for one.
using Ask =
    std::function<absl::StatusOr<wire::WorkReply>(const wire::WorkRequest&)>;

absl::StatusOr<wire::WorkReply> AskJailed(JailedChild& worker,
                                          const wire::WorkRequest& request) {
  RETURN_IF_ERROR(WriteFrame(worker.socket_fd(), request.SerializeAsString()));
  ASSIGN_OR_RETURN(const std::string bytes, ReadFrame(worker.socket_fd()));
  wire::WorkReply reply;
  if (!reply.ParseFromString(bytes)) return absl::InternalError("no reply");
  return reply;
}

// The artifact of a request, from its plan to its bytes.
absl::StatusOr<std::string> CompileCold(const CanonicalRequest& canonical,
                                        const Ask& ask) {
  wire::WorkRequest plan;
  *plan.mutable_plan()->mutable_compile() = canonical.request;
  ASSIGN_OR_RETURN(wire::WorkReply planned, ask(plan));
  if (!planned.has_plan())
    return absl::InternalError(planned.error().message());
  std::vector<wire::ObjectCode> objects;
  for (const wire::TranslationUnit& unit : planned.plan().units()) {
    wire::WorkRequest build;
    *build.mutable_build()->mutable_unit() = unit;
    *build.mutable_build()->mutable_target() = canonical.request.target();
    ASSIGN_OR_RETURN(wire::WorkReply built, ask(build));
    if (!built.has_build()) return absl::InternalError(built.error().message());
    objects.push_back(std::move(*built.mutable_build()));
  }
  return AssembleArtifact(std::move(*planned.mutable_plan()),
                          std::move(objects), canonical.request.target(),
                          canonical.digest.total, canonical.digest.total);
}

absl::StatusOr<CanonicalRequest> FirstGraphOf(const std::string& file,
                                              const Target& target) {
  ASSIGN_OR_RETURN(const std::vector<CorpusCase> cases, ReadCorpusFile(file));
  if (cases.empty()) return absl::NotFoundError(file + ": no case");
  wire::CompileRequest request;
  *request.mutable_graph() = cases.front().graph;
  request.mutable_target()->mutable_cpu()->set_level(target.name);
  return CanonicalizeRequest(request, DecideBy::kSizes);
}

absl::Status MeasureGraph(
    const std::string& file, const Target& target, const std::string& folder,
    const std::map<JailLevel, std::unique_ptr<JailedChild>>& workers) {
  ASSIGN_OR_RETURN(const CanonicalRequest graph, FirstGraphOf(file, target));
  ASSIGN_OR_RETURN(const SigningKey key, SigningKey::Generate());
  WorkBench bench;
  bench.host = MakeHostCcToolchain({.scratch_dir = folder});
  std::vector<double> bare;
  std::map<JailLevel, std::vector<double>> jailed;
  for (int round = 0; round < kGraphRounds; ++round) {
    absl::Time begin = absl::Now();
    RETURN_IF_ERROR(CompileCold(graph, [&bench](const wire::WorkRequest& work) {
                      return AnswerWork(bench, work);
                    }).status());
    bare.push_back(MsSince(begin));
    for (const auto& [level, worker] : workers) {
      begin = absl::Now();
      ASSIGN_OR_RETURN(
          std::string bytes,
          CompileCold(graph, [&w = *worker](const wire::WorkRequest& work) {
            return AskJailed(w, work);
          }));
      SealArtifact(key, wire::ArtifactEnvelope(), std::move(bytes));
      jailed[level].push_back(MsSince(begin));
    }
  }
  std::printf("graph %s, no jail, unsigned: %.1f ms\n",
              graph.request.graph().name().c_str(), MedianMs(bare));
  for (const auto& [level, ms] : jailed) {
    std::printf("graph, %s, signed: %.1f ms, %.3f\n",
                std::string(JailLevelName(level)).c_str(), MedianMs(ms),
                MedianMs(ms) / MedianMs(bare));
  }
  return absl::OkStatus();
}

absl::Status Measure(const std::string& program, const std::string& file,
                     const std::string& folder) {
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
  return MeasureGraph(file, target, folder, workers);
}

int Main(const std::string& program, const std::string& file) {
  std::string folder = "/tmp/kiln-jail-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const absl::Status status = Measure(program, file, folder);
  std::filesystem::remove_all(folder);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  return argc == 3 ? kiln::Main(argv[1], argv[2]) : 2;
}

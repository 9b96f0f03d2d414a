// What the jail costs a cold compile: one unit, and then a whole graph of the corpus,
// compiled by turns in this process and in workers at each level, there with the
// envelope and the signature of its artifact. Each round another begins. Prints
// medians of wall time, the median of a round's ratios to this process, and what a
// worker's start takes.
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
constexpr int kGraphRounds = 28;  // each of four begins seven times

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

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
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

// One of those that take turns.
struct Contender {
  std::string name;
  std::function<absl::Status(int round)> run;
};

// Prints how long each took; the first is the one that the others stand beside.
absl::Status TakeTurns(const std::string& what, int rounds,
                       const std::vector<Contender>& all) {
  std::vector<std::vector<double>> ms(all.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t turn = (static_cast<size_t>(round) + i) % all.size();
      const absl::Time begin = absl::Now();
      RETURN_IF_ERROR(all[turn].run(round));
      ms[turn].push_back(MsSince(begin));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round)
      ratios.push_back(ms[i][round] / ms[0][round]);
    std::printf("%s, %s: %.1f ms, %.3f\n", what.c_str(), all[i].name.c_str(),
                Median(ms[i]), Median(ratios));
  }
  return absl::OkStatus();
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

absl::Status BuildIn(JailedChild& worker, const Target& target, int round) {
  wire::WorkRequest request;
  wire::TranslationUnit& unit = *request.mutable_build()->mutable_unit();
  unit.set_source(Source(round));
  for (const std::string& flag : UnitFlags(target)) unit.add_flags(flag);
  request.mutable_build()->mutable_target()->mutable_cpu()->set_level(
      target.name);
  ASSIGN_OR_RETURN(const wire::WorkReply reply, AskJailed(worker, request));
  if (reply.has_build()) return absl::OkStatus();
  return absl::InternalError(reply.error().message());
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
  std::vector<Contender> all = {
      {"no jail, unsigned", [&](int) {
         return CompileCold(graph,
                            [&bench](const wire::WorkRequest& work) {
                              return AnswerWork(bench, work);
                            })
             .status();
       }}};
  for (const auto& [level, worker] : workers) {
    all.push_back({absl::StrCat(JailLevelName(level), ", signed"),
                   [&, w = worker.get()](int) -> absl::Status {
                     ASSIGN_OR_RETURN(
                         std::string bytes,
                         CompileCold(graph, [w](const wire::WorkRequest& work) {
                           return AskJailed(*w, work);
                         }));
                     SealArtifact(key, wire::ArtifactEnvelope(),
                                  std::move(bytes));
                     return absl::OkStatus();
                   }});
  }
  return TakeTurns("graph " + graph.request.graph().name(), kGraphRounds, all);
}

absl::Status Measure(const std::string& program, const std::string& file,
                     const std::string& folder) {
  const Target target = {.kind = TargetKind::kCpu, .name = "x86-64-v3"};
  const auto own = MakeHostCcToolchain({.scratch_dir = folder});
  std::vector<Contender> all = {
      {"no jail", [&](int round) {
         return own->Build(Source(round), UnitFlags(target)).status();
       }}};
  std::map<JailLevel, std::unique_ptr<JailedChild>> workers;
  for (const JailLevel level :
       {JailLevel::kLimits, JailLevel::kLandlock, JailLevel::kNamespaces}) {
    std::vector<double> starts;
    for (int i = 0; i < kRounds / 4; ++i) {
      const absl::Time begin = absl::Now();
      ASSIGN_OR_RETURN(workers[level], StartWorker(program, folder, level));
      starts.push_back(MsSince(begin));
    }
    const std::string name(JailLevelName(level));
    std::printf("start, %s: %.1f ms\n", name.c_str(), Median(starts));
    all.push_back({name, [&, w = workers[level].get()](int round) {
                     return BuildIn(*w, target, round);
                   }});
  }
  RETURN_IF_ERROR(TakeTurns("build", kRounds, all));
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

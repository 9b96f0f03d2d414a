#include "client/corpus_runner/run_files.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/corpus_runner/cuda_dtypes.h"
#include "client/corpus_runner/private_daemon.h"
#include "client/corpus_runner/progress_line.h"
#include "client/session.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_bytes.h"

namespace kiln {
namespace {

std::string StepText(const wire::Progress& progress) {
  switch (progress.stage()) {
    case wire::Progress::STAGE_QUEUED:
      return "queued";
    case wire::Progress::STAGE_PLANNING:
      return "planning";
    case wire::Progress::STAGE_BUILDING:
      return absl::StrCat("building, ", progress.done(), " of ",
                          progress.total(), " kernels");
    case wire::Progress::STAGE_STORING:
      return "storing";
    case wire::Progress::STAGE_ELSEWHERE:
      return "being compiled by another daemon";
    default:  // of a newer daemon
      return "compiling";
  }
}

absl::StatusOr<std::vector<PublicKey>> KeysOf(const CorpusRun& run) {
  std::vector<PublicKey> keys;
  for (const std::string& hex : run.public_keys) {
    const std::optional<Digest> raw = Digest::FromHex(hex);
    if (!raw.has_value()) {
      return MakeError(ErrorReason::kBadOption,
                       absl::StrCat("--public-key: found ", hex,
                                    ", expected 64 hexadecimal digits"));
    }
    ASSIGN_OR_RETURN(PublicKey key, PublicKey::FromBytes(raw->bytes()));
    keys.push_back(std::move(key));
  }
  return keys;
}

// Sets which daemons the session asks: those behind TCP, else the one at `socket`.
absl::Status SetDaemons(const CorpusRun& run, const std::string& socket,
                        SessionOptions& options) {
  if (run.tcp.empty()) {
    options.daemon.socket = socket;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<PublicKey> keys, KeysOf(run));
  for (size_t i = 0; i < run.tcp.size(); ++i) {
    DaemonAddress address;
    address.tcp = run.tcp[i];
    address.tls = {.ca = run.tls_ca,
                   .certificate = run.tls_certificate,
                   .key = run.tls_key};
    if (!run.token_files.empty()) address.tls.token_file = run.token_files[i];
    address.public_keys = keys;
    if (i == 0) {
      options.daemon = std::move(address);
    } else {
      options.more_daemons.push_back(std::move(address));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SessionOptions> OptionsOf(const CorpusRun& run,
                                         const std::string& socket,
                                         const std::string& scratch) {
  SessionOptions options;
  RETURN_IF_ERROR(SetDaemons(run, socket, options));
  options.local_only = run.local;
  options.local_worker = {.program = run.worker,
                          .scratch_root = scratch,
                          .environment = run.worker_environment};
  options.cache_namespace = run.cache_namespace;
  // Big graphs on a small, busy machine: correctness waits, speed is measured
  // elsewhere.
  options.compile_deadline = absl::Minutes(10);
  options.local_deadline = absl::Minutes(10);
  options.device.threads = static_cast<int>(run.threads);
  options.device.library_folders = run.library_folders;
  options.device.kind =
      run.device == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
  if (run.device == "cuda-compile") {
    options.device.kind = DeviceKind::kNull;
    options.target.emplace().mutable_cuda()->set_arch(
        run.arch.empty() ? "sm_90" : run.arch);
  } else if (run.device == "cpu" && !run.arch.empty()) {
    options.target.emplace().mutable_cpu()->set_level(run.arch);
  }
  return options;
}

// Gives out files one by one and prints their results in order.
class FileQueue {
 public:
  explicit FileQueue(std::vector<std::string> files)
      : files_(std::move(files)), done_(files_.size()) {}

  // The number of the next file; -1 when all are given out.
  int Next() {
    MutexLock lock(&mu_);
    return next_ < files_.size() ? static_cast<int>(next_++) : -1;
  }
  const std::string& file(int i) const { return files_[i]; }

  void Finish(int i, std::vector<CaseResult> results) {
    MutexLock lock(&mu_);
    done_[i] = std::move(results);
    while (printed_ < done_.size() && done_[printed_].has_value()) {
      for (const CaseResult& result : *done_[printed_]) {
        std::printf("%s\n", ResultLine(result).c_str());
      }
      std::fflush(stdout);
      ++printed_;
    }
  }

  std::vector<CaseResult> All() {
    MutexLock lock(&mu_);
    std::vector<CaseResult> all;
    for (const auto& results : done_) {
      if (results.has_value()) {
        all.insert(all.end(), results->begin(), results->end());
      }
    }
    return all;
  }

 private:
  const std::vector<std::string> files_;
  Mutex mu_;
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
  size_t printed_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::optional<std::vector<CaseResult>>> done_
      ABSL_GUARDED_BY(mu_);
};

std::vector<CaseResult> RunFile(Session& session, const std::string& path,
                                const CorpusRun& run, const CudaDTypes& dtypes,
                                std::optional<ProgressLine>& line) {
  absl::StatusOr<std::vector<CorpusCase>> cases = ReadCorpusFile(path);
  if (!cases.ok()) {
    CaseResult unreadable;
    unreadable.name = path;
    unreadable.verdict = Verdict::kFailed;
    unreadable.detail = cases.status().ToString();
    return {unreadable};
  }
  if (!run.only_case.empty()) {
    cases->erase(std::remove_if(cases->begin(), cases->end(),
                                [&run](const CorpusCase& test_case) {
                                  return BaseName(test_case) != run.only_case &&
                                         test_case.name != run.only_case;
                                }),
                 cases->end());
  }
  for (CorpusCase& test_case : *cases) {
    if (run.device != "cuda" || !test_case.readable.ok()) continue;
    test_case.readable = ApplyCudaDTypes(dtypes, test_case);
  }
  CaseOptions options;
  if (run.device == "cuda-compile") options.mode = CaseMode::kCompileOnly;
  if (run.device != "cpu") options.device = wire::DEVICE_TYPE_CUDA;
  options.repeats = static_cast<int>(run.repeats);
  if (line.has_value()) {
    options.on_step = [&line](const std::string& name, absl::string_view step) {
      line->Show(name, std::string(step));
    };
  }
  options.compile.mutable_artifact()->set_cache_tag(run.cache_tag);
  options.compile.mutable_diagnostic()->set_verify_passes(run.verify);
  return RunCases(session, *std::move(cases), options);
}

absl::StatusOr<std::vector<CaseResult>> RunFiles(const CorpusRun& run,
                                                 const std::string& socket,
                                                 const std::string& scratch) {
  std::vector<std::string> files;
  for (const std::string& path : run.paths) {
    ASSIGN_OR_RETURN(const std::vector<std::string> found,
                     ListCorpusFiles(path));
    files.insert(files.end(), found.begin(), found.end());
  }
  CudaDTypes dtypes;
  if (!run.cuda_dtypes.empty()) {
    ASSIGN_OR_RETURN(dtypes, ReadCudaDTypes(run.cuda_dtypes));
  }
  ASSIGN_OR_RETURN(SessionOptions options, OptionsOf(run, socket, scratch));
  std::optional<ProgressLine> line;
  if (run.progress) {
    line.emplace(stderr, isatty(STDERR_FILENO) != 0
                             ? ProgressLine::Place::kTerminal
                             : ProgressLine::Place::kLog);
    options.on_progress = [&line](const std::string& graph,
                                  const wire::Progress& progress) {
      line->Show(graph, StepText(progress));
    };
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                   Session::Open(std::move(options)));
  const int64_t jobs = run.jobs > 0
                           ? run.jobs
                           : std::max(1u, std::thread::hardware_concurrency());
  const int threads = static_cast<int>(
      std::min<int64_t>(jobs, static_cast<int64_t>(files.size())));
  FileQueue queue(std::move(files));
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      for (int i = queue.Next(); i >= 0; i = queue.Next()) {
        queue.Finish(i, RunFile(*session, queue.file(i), run, dtypes, line));
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  return queue.All();
}

}  // namespace

absl::StatusOr<std::vector<CaseResult>> RunCorpus(const CorpusRun& run,
                                                  const std::string& scratch) {
  if (run.local || !run.daemon.empty() || !run.tcp.empty()) {
    return RunFiles(run, run.daemon, scratch);
  }
  ASSIGN_OR_RETURN(
      const std::unique_ptr<PrivateDaemon> daemon,
      PrivateDaemon::Start({.kilnd = run.kilnd,
                            .worker = run.worker,
                            .worker_environment = run.worker_environment,
                            .folder = scratch}));
  return RunFiles(run, daemon->socket(), scratch);
}

}  // namespace kiln

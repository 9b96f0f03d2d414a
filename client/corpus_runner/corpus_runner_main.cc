// kiln-corpus: runs corpus files through the client and a daemon and compares
// with what PyTorch computed. `kiln-corpus --help` says how.

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/corpus_runner/private_daemon.h"
#include "client/corpus_runner/progress_line.h"
#include "client/corpus_runner/report_json.h"
#include "client/corpus_runner/run_case.h"
#include "proto/base/command_line.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_bytes.h"

namespace kiln {
namespace {

constexpr char kWhat[] =
    "Compiles and runs every case of the corpus files at PATH (NAME.jsonl, or "
    "a\nfolder), and compares with the stored results. A line a case: ok, "
    "compiled (there\nis nothing to compare with), WRONG, UNIMPLEMENTED or "
    "FAILED; last \"N passed, N\nfailed, N unimplemented\". Those that were "
    "only "
    "compiled are among the passed; a\nline before the last says how many.";

constexpr char kFooter[] =
    "Exit codes: 0 nothing failed, 1 something did or no case was found, 2 "
    "used "
    "wrongly.\n"
    "Environment: KILN_CUDA_LIBRARY_PATH, folders as of --library-folder.";

struct Flags {
  std::vector<std::string> paths;
  std::string device = "cpu";
  std::string arch = "sm_90";
  std::string daemon;
  std::string kilnd;
  std::string worker;
  std::vector<std::string> worker_environment;
  std::vector<std::string> library_folders;
  std::string only_case;
  std::string cache_tag;
  std::string report;
  std::string unpack;
  int64_t repeats = 0;
  int64_t jobs = 0;
  int64_t threads = 0;
  bool local = false;
  bool verify = false;
  bool progress = false;
};

// The program named `name` that stands beside this one, or where the build puts
// it (`built`, from the root of the build's output).
std::string Beside(absl::string_view name, absl::string_view built) {
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path folder = self.parent_path();
  const std::filesystem::path beside = folder / std::string(name);
  if (std::filesystem::exists(beside, error)) return beside.string();
  return (folder.parent_path().parent_path() / std::string(built)).string();
}

// What the toolchains and libraries of workers are found by.
constexpr const char* kPassedOn[] = {
    "LD_LIBRARY_PATH", "CUDA_HOME",  "CUDA_PATH",
    "KILN_HOST_CC",    "KILN_NVRTC", "KILN_CUDA_LIBRARY_PATH"};

// BAD_OPTION: what no run can be made of.
absl::Status CheckFlags(const Flags& flags) {
  constexpr int64_t kMostThreads = 1024;  // as ThreadPool has it
  const auto range = [](absl::string_view name, int64_t value, int64_t high) {
    if (value >= 0 && value <= high) return absl::OkStatus();
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat(name, ": found ", value, ", 0 to ", high, " is due"));
  };
  RETURN_IF_ERROR(range("--jobs", flags.jobs, kMostThreads));
  RETURN_IF_ERROR(range("--threads", flags.threads, kMostThreads));
  RETURN_IF_ERROR(range("--repeat", flags.repeats, int64_t{1} << 30));
  if (flags.local && !flags.daemon.empty()) {
    return MakeError(ErrorReason::kBadOption,
                     "--local, --daemon: found both, one is due");
  }
  for (const std::string& entry : flags.worker_environment) {
    if (entry.find('=') != std::string::npos && entry[0] != '=') continue;
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("--worker-env: found ", entry, ", NAME=VALUE is due"));
  }
  for (const std::string& folder : flags.library_folders) {
    std::error_code error;
    if (std::filesystem::is_directory(folder, error)) continue;
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("--library-folder: ", folder,
                                  ": not a folder that is there"));
  }
  return absl::OkStatus();
}

void FillDefaults(Flags& out) {
  if (out.kilnd.empty()) out.kilnd = Beside("kilnd", "server/kilnd");
  if (out.worker.empty()) {
    out.worker = Beside("kiln-worker", "compiler/kiln-worker");
  }
  if (out.jobs == 0) {
    out.jobs = std::max(1u, std::thread::hardware_concurrency());
  }
  for (const char* name : kPassedOn) {
    const char* value = getenv(name);
    if (value == nullptr) continue;
    out.worker_environment.push_back(absl::StrCat(name, "=", value));
  }
  const char* folders = getenv("KILN_CUDA_LIBRARY_PATH");
  if (folders == nullptr) return;
  for (absl::string_view folder : absl::StrSplit(folders, ':')) {
    if (!folder.empty()) out.library_folders.emplace_back(folder);
  }
}

void Define(Arguments& line, Flags& flags) {
  line.Words("PATH", flags.paths, Arguments::Due::kRequired,
             "NAME.jsonl or a folder");
  line.Choice("--device", flags.device, {"cpu", "cuda", "cuda-compile"},
              "where to run; cuda-compile makes cubins and runs nothing");
  line.Option("--arch", flags.arch, "for cuda-compile");
  line.Option("--daemon", flags.daemon,
              "socket of a daemon that runs; else one is started");
  line.Flag("--verify", flags.verify,
            "workers verify each level of each compile");
  line.Flag("--local", flags.local,
            "no daemon: a worker of this process's own");
  line.Option("--kilnd", flags.kilnd,
              "the daemon to start (the one beside this program)");
  line.Option("--worker", flags.worker,
              "the worker to start (the one beside this program)");
  line.Option("--worker-env", flags.worker_environment,
              "NAME=VALUE, handed to workers; may be repeated");
  line.Option("--library-folder", flags.library_folders,
              "looked into for cuBLAS, cuDNN and oneDNN; may be repeated");
  line.Option("--jobs", flags.jobs, "files at once; 0: one a core");
  line.Option("--threads", flags.threads,
              "CPU threads a kernel may use; 0: one a core");
  line.Option("--case", flags.only_case,
              "only the cases of this name (and NAME@1)");
  line.Option("--cache-tag", flags.cache_tag,
              "part of the key: another word, another compile");
  line.Option("--repeat", flags.repeats, "times N more runs of each case");
  line.Option("--unpack", flags.unpack,
              "only write the files to this folder, as plain .jsonl and "
              ".safetensors, for other programs");
  line.Option("--report", flags.report,
              "file for the results as JSON, for scripts");
  line.Flag("--progress", flags.progress,
            "say on standard error what is under way");
}

std::string StepText(const wire::Progress& progress) {
  switch (progress.stage()) {
    case wire::Progress::STAGE_QUEUED:
      return "queued";
    case wire::Progress::STAGE_PLANNING:
      return "planning";
    case wire::Progress::STAGE_BUILDING:
      return absl::StrCat("building, ", progress.done(), " of ",
                          progress.total(), " kernel units");
    case wire::Progress::STAGE_STORING:
      return "storing";
    default:  // of a newer daemon
      return "compiling";
  }
}

SessionOptions OptionsOf(const Flags& flags, const std::string& socket,
                         const std::string& scratch) {
  SessionOptions options;
  options.local_only = flags.local;
  options.local_worker = {.program = flags.worker,
                          .scratch_root = scratch,
                          .environment = flags.worker_environment};
  options.daemon.socket = socket;
  options.daemon.connect_timeout = absl::Seconds(5);
  // Big graphs on a small, busy machine: correctness waits, speed is measured
  // elsewhere.
  options.compile_deadline = absl::Minutes(10);
  options.local_deadline = absl::Minutes(10);
  options.device.threads = static_cast<int>(flags.threads);
  options.device.library_folders = flags.library_folders;
  options.device.kind =
      flags.device == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
  if (flags.device == "cuda-compile") {
    options.device.kind = DeviceKind::kNull;
    options.target.emplace().mutable_cuda()->set_arch(flags.arch);
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
                                const Flags& flags,
                                std::optional<ProgressLine>& line) {
  absl::StatusOr<std::vector<CorpusCase>> cases = ReadCorpusFile(path);
  if (!cases.ok()) {
    CaseResult unreadable;
    unreadable.name = path;
    unreadable.verdict = Verdict::kFailed;
    unreadable.detail = cases.status().ToString();
    return {unreadable};
  }
  if (!flags.only_case.empty()) {
    cases->erase(std::remove_if(cases->begin(), cases->end(),
                                [&flags](const CorpusCase& test_case) {
                                  return BaseName(test_case) !=
                                             flags.only_case &&
                                         test_case.name != flags.only_case;
                                }),
                 cases->end());
  }
  CaseOptions options;
  if (flags.device == "cuda-compile") options.mode = CaseMode::kCompileOnly;
  if (flags.device != "cpu") options.device = wire::DEVICE_TYPE_CUDA;
  options.repeats = static_cast<int>(flags.repeats);
  if (line.has_value()) {
    options.on_step = [&line](const std::string& name, absl::string_view step) {
      line->Show(name, std::string(step));
    };
  }
  options.compile.mutable_artifact()->set_cache_tag(flags.cache_tag);
  options.compile.mutable_diagnostic()->set_verify_passes(flags.verify);
  return RunCases(session, *std::move(cases), options);
}

absl::StatusOr<std::vector<CaseResult>> RunFiles(const Flags& flags,
                                                 const std::string& socket,
                                                 const std::string& scratch) {
  std::vector<std::string> files;
  for (const std::string& path : flags.paths) {
    ASSIGN_OR_RETURN(const std::vector<std::string> found,
                     ListCorpusFiles(path));
    files.insert(files.end(), found.begin(), found.end());
  }
  SessionOptions options = OptionsOf(flags, socket, scratch);
  std::optional<ProgressLine> line;
  if (flags.progress) {
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
  const int threads = static_cast<int>(
      std::min<int64_t>(flags.jobs, static_cast<int64_t>(files.size())));
  FileQueue queue(std::move(files));
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      for (int i = queue.Next(); i >= 0; i = queue.Next()) {
        queue.Finish(i, RunFile(*session, queue.file(i), flags, line));
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  return queue.All();
}

absl::StatusOr<std::vector<CaseResult>> RunAll(const Flags& flags,
                                               const std::string& scratch) {
  if (flags.local || !flags.daemon.empty()) {
    return RunFiles(flags, flags.daemon, scratch);
  }
  ASSIGN_OR_RETURN(
      const std::unique_ptr<PrivateDaemon> daemon,
      PrivateDaemon::Start({.kilnd = flags.kilnd,
                            .worker = flags.worker,
                            .worker_environment = flags.worker_environment,
                            .folder = scratch}));
  return RunFiles(flags, daemon->socket(), scratch);
}

// Writes the files as other programs read them.
absl::Status Unpack(const Flags& flags) {
  std::error_code error;
  std::filesystem::create_directories(flags.unpack, error);
  for (const std::string& path : flags.paths) {
    ASSIGN_OR_RETURN(const std::vector<std::string> files,
                     ListCorpusFiles(path));
    for (const std::string& jsonl : files) {
      const std::string stem(absl::StripSuffix(jsonl, ".jsonl"));
      for (const char* kind : {".jsonl", ".safetensors"}) {
        const auto bytes = ReadCorpusBytes(stem + kind);
        if (absl::IsNotFound(bytes.status())) continue;  // a case without data
        RETURN_IF_ERROR(bytes.status());
        const std::filesystem::path to =
            std::filesystem::path(flags.unpack) /
            (std::filesystem::path(stem).filename().string() + kind);
        if (!(std::ofstream(to, std::ios::binary) << *bytes)) {
          return MakeError(ErrorReason::kStorage,
                           absl::StrCat(to.string(), ": not written"));
        }
      }
    }
  }
  return absl::OkStatus();
}

// Prints the counts. The exit code.
int Conclude(const std::vector<CaseResult>& results) {
  int counts[5] = {};
  for (const CaseResult& result : results) {
    ++counts[static_cast<int>(result.verdict)];
  }
  const int failed = counts[static_cast<int>(Verdict::kWrong)] +
                     counts[static_cast<int>(Verdict::kFailed)];
  const int compiled = counts[static_cast<int>(Verdict::kCompiled)];
  if (compiled > 0) {
    std::printf("%d of the passed were compiled and not run\n", compiled);
  }
  std::printf("%d passed, %d failed, %d unimplemented\n",
              counts[static_cast<int>(Verdict::kOk)] + compiled, failed,
              counts[static_cast<int>(Verdict::kUnimplemented)]);
  return failed == 0 ? 0 : 1;
}

// Opened before the cases run: hours of work should not end unwritten.
int Run(const Flags& flags, const std::string& scratch) {
  std::ofstream report;
  if (!flags.report.empty()) {
    report.open(flags.report);
    if (!report) {
      std::fprintf(stderr, "kiln-corpus: --report: %s: can't be written\n",
                   flags.report.c_str());
      return 2;
    }
  }
  const absl::StatusOr<std::vector<CaseResult>> results =
      RunAll(flags, scratch);
  if (!results.ok()) {
    std::fprintf(stderr, "kiln-corpus: %s\n",
                 results.status().ToString().c_str());
    return 1;
  }
  if (results->empty()) {
    std::fprintf(stderr, "kiln-corpus: no case %s%sin the files named\n",
                 flags.only_case.c_str(), flags.only_case.empty() ? "" : " ");
    return 1;
  }
  if (report.is_open() && !(report << ReportJson(*results) << std::flush)) {
    std::fprintf(stderr, "kiln-corpus: --report: %s: not written\n",
                 flags.report.c_str());
    return 1;
  }
  return Conclude(*results);
}

int Main(int argc, char** argv) {
  Flags flags;
  CommandLine line(
      {.program = "kiln-corpus", .what = kWhat, .footer = kFooter});
  Define(line.arguments(), flags);
  if (const std::optional<int> end = line.Parse(argc, argv)) return *end;
  if (const absl::Status sound = CheckFlags(flags); !sound.ok()) {
    std::fprintf(stderr, "kiln-corpus: %s\n",
                 std::string(sound.message()).c_str());
    return 2;
  }
  FillDefaults(flags);
  if (!flags.unpack.empty()) {
    const absl::Status unpacked = Unpack(flags);
    if (!unpacked.ok()) {
      std::fprintf(stderr, "kiln-corpus: %s\n", unpacked.ToString().c_str());
    }
    return unpacked.ok() ? 0 : 1;
  }
  std::string scratch = "/tmp/kiln-corpus-XXXXXX";
  if (mkdtemp(scratch.data()) == nullptr) {
    std::perror("/tmp");
    return 1;
  }
  const int code = Run(flags, scratch);
  std::error_code ignored;  // a stale folder in /tmp harms nobody
  std::filesystem::remove_all(scratch, ignored);
  return code;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }

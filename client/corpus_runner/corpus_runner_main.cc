// kiln-corpus: runs corpus files through the client and a daemon and compares
// with what PyTorch computed. `kiln-corpus --help` says how.

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/corpus_runner/private_daemon.h"
#include "client/corpus_runner/report_json.h"
#include "client/corpus_runner/run_case.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_bytes.h"

namespace kiln {
namespace {

constexpr char kUsage[] =
    R"(usage: kiln-corpus PATH... [options]

Compiles and runs every case of the corpus files at PATH (NAME.jsonl, or a
folder), and compares with the stored results. A line a case: ok, WRONG,
UNIMPLEMENTED or FAILED; last "N passed, N failed, N unimplemented".

  --device cpu|cuda|cuda-compile   where to run (cpu); cuda-compile makes cubins
                                   and runs nothing
  --arch sm_XY                     for cuda-compile (sm_90)
  --daemon SOCKET                  a daemon that runs; else one is started
  --local                          no daemon: a worker of this process's own
  --kilnd PROGRAM                  the daemon to start (beside this program)
  --worker PROGRAM                 the worker to start (beside this program)
  --worker-env NAME=VALUE          handed to workers; may be repeated
  --library-folder FOLDER          looked into for cuBLAS, cuDNN and oneDNN;
                                   may be repeated
  --jobs N                         files at once (cores)
  --threads N                      CPU threads a kernel may use (cores)
  --case NAME                      only the cases of this name (and NAME@1)
  --cache-tag WORD                 part of the key: another word, another compile
  --repeat N                       time N more runs of each case
  --unpack FOLDER                  only write the files there as plain .jsonl
                                   and .safetensors, for other programs
  --report FILE                    results as JSON, for scripts

Exit code: 0 nothing failed, 1 something did, 2 used wrongly.
Environment: KILN_CUDA_LIBRARY_PATH, folders as of --library-folder.
)";

struct Arguments {
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
  int repeats = 0;
  bool local = false;
  int jobs = 0;
  int threads = 0;
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
constexpr const char* kPassedOn[] = {"LD_LIBRARY_PATH", "CUDA_HOME",
                                     "CUDA_PATH", "KILN_HOST_CC",
                                     "KILN_CUDA_LIBRARY_PATH"};

// Where a flag's value goes; false when the value cannot be meant.
bool SetFlag(Arguments& out, absl::string_view word, const std::string& value) {
  struct TextFlag {
    absl::string_view word;
    std::string* text;
  };
  for (const TextFlag& flag :
       {TextFlag{"--device", &out.device}, TextFlag{"--arch", &out.arch},
        TextFlag{"--daemon", &out.daemon}, TextFlag{"--kilnd", &out.kilnd},
        TextFlag{"--worker", &out.worker}, TextFlag{"--report", &out.report},
        TextFlag{"--case", &out.only_case}, TextFlag{"--unpack", &out.unpack},
        TextFlag{"--cache-tag", &out.cache_tag}}) {
    if (flag.word != word) continue;
    *flag.text = value;
    return word != "--device" || value == "cpu" || value == "cuda" ||
           value == "cuda-compile";
  }
  if (word == "--worker-env") {
    out.worker_environment.push_back(value);
    return true;
  }
  if (word == "--library-folder") {
    out.library_folders.push_back(value);
    return true;
  }
  if (word == "--jobs") return absl::SimpleAtoi(value, &out.jobs);
  if (word == "--repeat") return absl::SimpleAtoi(value, &out.repeats);
  if (word == "--threads") return absl::SimpleAtoi(value, &out.threads);
  return false;
}

void FillDefaults(Arguments& out) {
  if (out.kilnd.empty()) out.kilnd = Beside("kilnd", "server/kilnd");
  if (out.worker.empty()) {
    out.worker = Beside("kiln-worker", "compiler/kiln-worker");
  }
  if (out.jobs <= 0) {
    out.jobs = static_cast<int>(std::thread::hardware_concurrency());
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

// Empty when they are used wrongly.
std::optional<Arguments> ReadArguments(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--local") {
      out.local = true;
    } else if (word.substr(0, 2) != "--") {
      out.paths.push_back(word);
    } else if (i + 1 >= argc || !SetFlag(out, word, argv[++i])) {
      return std::nullopt;
    }
  }
  if (out.paths.empty()) return std::nullopt;
  FillDefaults(out);
  return out;
}

SessionOptions OptionsOf(const Arguments& arguments, const std::string& socket,
                         const std::string& scratch) {
  SessionOptions options;
  options.local_only = arguments.local;
  options.local_worker = {.program = arguments.worker,
                          .scratch_root = scratch,
                          .environment = arguments.worker_environment};
  options.daemon.socket = socket;
  options.daemon.connect_timeout = absl::Seconds(5);
  // Big graphs on a small, busy machine: correctness waits, speed is measured
  // elsewhere.
  options.compile_deadline = absl::Minutes(10);
  options.local_deadline = absl::Minutes(10);
  options.device.threads = arguments.threads;
  options.device.library_folders = arguments.library_folders;
  options.device.kind =
      arguments.device == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
  if (arguments.device == "cuda-compile") {
    options.device.kind = DeviceKind::kNull;
    options.target.emplace().mutable_cuda()->set_arch(arguments.arch);
  }
  return options;
}

// Gives out files one by one and prints their results in order.
class Progress {
 public:
  explicit Progress(std::vector<std::string> files)
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
                                const Arguments& arguments) {
  absl::StatusOr<std::vector<CorpusCase>> cases = ReadCorpusFile(path);
  if (!cases.ok()) {
    CaseResult unreadable;
    unreadable.name = path;
    unreadable.verdict = Verdict::kFailed;
    unreadable.detail = cases.status().ToString();
    return {unreadable};
  }
  if (!arguments.only_case.empty()) {
    cases->erase(std::remove_if(cases->begin(), cases->end(),
                                [&arguments](const CorpusCase& test_case) {
                                  return BaseName(test_case) !=
                                             arguments.only_case &&
                                         test_case.name != arguments.only_case;
                                }),
                 cases->end());
  }
  CaseOptions options;
  if (arguments.device == "cuda-compile") options.mode = CaseMode::kCompileOnly;
  if (arguments.device != "cpu") options.device = wire::DEVICE_TYPE_CUDA;
  options.repeats = arguments.repeats;
  options.compile.mutable_artifact()->set_cache_tag(arguments.cache_tag);
  return RunCases(session, *std::move(cases), options);
}

absl::StatusOr<std::vector<CaseResult>> RunFiles(const Arguments& arguments,
                                                 const std::string& socket,
                                                 const std::string& scratch) {
  std::vector<std::string> files;
  for (const std::string& path : arguments.paths) {
    ASSIGN_OR_RETURN(const std::vector<std::string> found,
                     ListCorpusFiles(path));
    files.insert(files.end(), found.begin(), found.end());
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                   Session::Open(OptionsOf(arguments, socket, scratch)));
  const int threads =
      std::min<int>(arguments.jobs, static_cast<int>(files.size()));
  Progress progress(std::move(files));
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      for (int i = progress.Next(); i >= 0; i = progress.Next()) {
        progress.Finish(i, RunFile(*session, progress.file(i), arguments));
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  return progress.All();
}

absl::StatusOr<std::vector<CaseResult>> RunAll(const Arguments& arguments,
                                               const std::string& scratch) {
  if (arguments.local || !arguments.daemon.empty()) {
    return RunFiles(arguments, arguments.daemon, scratch);
  }
  ASSIGN_OR_RETURN(
      const std::unique_ptr<PrivateDaemon> daemon,
      PrivateDaemon::Start({.kilnd = arguments.kilnd,
                            .worker = arguments.worker,
                            .worker_environment = arguments.worker_environment,
                            .folder = scratch}));
  return RunFiles(arguments, daemon->socket(), scratch);
}

// Writes the files as other programs read them.
absl::Status Unpack(const Arguments& arguments) {
  std::error_code error;
  std::filesystem::create_directories(arguments.unpack, error);
  for (const std::string& path : arguments.paths) {
    ASSIGN_OR_RETURN(const std::vector<std::string> files,
                     ListCorpusFiles(path));
    for (const std::string& jsonl : files) {
      const std::string stem(absl::StripSuffix(jsonl, ".jsonl"));
      for (const char* kind : {".jsonl", ".safetensors"}) {
        const auto bytes = ReadCorpusBytes(stem + kind);
        if (absl::IsNotFound(bytes.status())) continue;  // a case without data
        RETURN_IF_ERROR(bytes.status());
        const std::filesystem::path to =
            std::filesystem::path(arguments.unpack) /
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

int Main(int argc, char** argv) {
  const std::optional<Arguments> arguments = ReadArguments(argc, argv);
  if (!arguments.has_value()) {
    const bool asked = argc == 2 && std::string(argv[1]) == "--help";
    std::fputs(kUsage, asked ? stdout : stderr);
    return asked ? 0 : 2;
  }
  if (!arguments->unpack.empty()) {
    const absl::Status unpacked = Unpack(*arguments);
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
  const absl::StatusOr<std::vector<CaseResult>> results =
      RunAll(*arguments, scratch);
  std::error_code ignored;  // a stale folder in /tmp harms nobody
  std::filesystem::remove_all(scratch, ignored);
  if (!results.ok()) {
    std::fprintf(stderr, "kiln-corpus: %s\n",
                 results.status().ToString().c_str());
    return 1;
  }
  if (!arguments->report.empty()) {
    std::ofstream(arguments->report) << ReportJson(*results);
  }
  int counts[4] = {};
  for (const CaseResult& result : *results) {
    ++counts[static_cast<int>(result.verdict)];
  }
  const int failed = counts[static_cast<int>(Verdict::kWrong)] +
                     counts[static_cast<int>(Verdict::kFailed)];
  std::printf("%d passed, %d failed, %d unimplemented\n",
              counts[static_cast<int>(Verdict::kOk)], failed,
              counts[static_cast<int>(Verdict::kUnimplemented)]);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }

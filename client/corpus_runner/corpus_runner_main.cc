// kiln-corpus: runs corpus files through the client and a daemon and compares
// with what PyTorch computed. `kiln-corpus --help` says how.

#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/corpus_runner/report_json.h"
#include "client/corpus_runner/run_case.h"
#include "client/corpus_runner/run_files.h"
#include "client/corpus_runner/unpack_files.h"
#include "proto/base/command_line.h"
#include "proto/base/status.h"
#include "proto/base/tcp_address.h"
#include "runtime/thread_pool.h"

namespace kiln {
namespace {

constexpr char kWhat[] =
    "Compiles, runs and compares every case of the corpus files at PATH "
    "(NAME.jsonl, or\na folder): results with the stored ones, and what a case "
    "expects "
    "of its compile\n(kernels, bytes, matches) with what was counted. A line a "
    "case: "
    "ok, compiled (no\nresults are stored), WRONG, UNIMPLEMENTED or FAILED; "
    "last \"N passed, N failed,\nN unimplemented\". Those that were only "
    "compiled are among the passed; a line\nbefore the last says how many.";

constexpr char kFooter[] =
    "Exit codes: 0 nothing failed, 1 something did or no case was found, "
    "2 used wrongly.\n"
    "Environment: KILN_CUDA_LIBRARY_PATH, folders as of --library-folder. "
    "KILN_ADDR and kiln.toml are not read.";

struct Flags {
  CorpusRun run;
  std::string report;
  std::string unpack;
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
  const auto range = [](absl::string_view name, int64_t value, int64_t high) {
    if (value >= 0 && value <= high) return absl::OkStatus();
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat(name, ": found ", value, ", expected 0 to ", high));
  };
  RETURN_IF_ERROR(range("--jobs", flags.run.jobs, ThreadPool::kMaxThreads));
  RETURN_IF_ERROR(
      range("--threads", flags.run.threads, ThreadPool::kMaxThreads));
  RETURN_IF_ERROR(range("--repeat", flags.run.repeats, int64_t{1} << 30));
  const bool socket = !flags.run.daemon.empty();
  const bool tcp = !flags.run.tcp.empty();
  if ((flags.run.local && (socket || tcp)) || (socket && tcp)) {
    return MakeError(
        ErrorReason::kBadOption,
        "--local, --daemon, --tcp: more than one is given; give one");
  }
  if (CheckTcpAddress(flags.run.daemon, /*least_port=*/1).ok()) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("--daemon: found ", flags.run.daemon,
                                  ", expected the path of a socket; --tcp "
                                  "takes HOST:PORT"));
  }
  if (!flags.run.tcp.empty() && flags.run.public_keys.empty()) {
    return MakeError(
        ErrorReason::kBadOption,
        "--public-key: found none, expected with --tcp the 64 hexadecimal "
        "digits of the daemon's public key, which `compilectl keys list` shows "
        "on its machine");
  }
  if (!flags.run.token_files.empty() &&
      flags.run.token_files.size() != flags.run.tcp.size()) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("--token-file: found ", flags.run.token_files.size(),
                     ", expected one for each --tcp"));
  }
  if (flags.run.tls_certificate.empty() != flags.run.tls_key.empty()) {
    return MakeError(
        ErrorReason::kBadOption,
        "--tls-certificate, --tls-key: only one is given; give both");
  }
  for (const std::string& entry : flags.run.worker_environment) {
    if (entry.find('=') != std::string::npos && entry[0] != '=') continue;
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("--worker-env: found ", entry, ", expected NAME=VALUE"));
  }
  for (const std::string& folder : flags.run.library_folders) {
    std::error_code error;
    if (std::filesystem::is_directory(folder, error)) continue;
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("--library-folder: ", folder,
                                  ": not a folder that is there"));
  }
  return absl::OkStatus();
}

void FillDefaults(Flags& out) {
  if (out.run.kilnd.empty()) out.run.kilnd = Beside("kilnd", "server/kilnd");
  if (out.run.worker.empty()) {
    out.run.worker = Beside("kiln-worker", "compiler/kiln-worker");
  }
  for (const char* name : kPassedOn) {
    const char* value = getenv(name);
    if (value == nullptr) continue;
    out.run.worker_environment.push_back(absl::StrCat(name, "=", value));
  }
  const char* folders = getenv("KILN_CUDA_LIBRARY_PATH");
  if (folders == nullptr) return;
  for (absl::string_view folder : absl::StrSplit(folders, ':')) {
    if (!folder.empty()) out.run.library_folders.emplace_back(folder);
  }
}

void Define(Arguments& line, Flags& flags) {
  line.Words("PATH", flags.run.paths, Arguments::Due::kRequired,
             "NAME.jsonl or a folder");
  line.Choice("--device", flags.run.device, {"cpu", "cuda", "cuda-compile"},
              "where to run; cuda-compile makes cubins and runs nothing");
  line.Option("--arch", flags.run.arch,
              "what code is made for: sm_90 for cuda-compile; on the CPU a "
              "level such as x86-64-v2, all that it has by default");
  line.Option("--daemon,--socket", flags.run.daemon,
              "socket of a daemon that runs; else one is started");
  line.Option("--tcp", flags.run.tcp,
              "host:port of a daemon that runs; may be repeated");
  line.Option("--token-file", flags.run.token_files,
              "with the token for each --tcp, in their order");
  line.Option("--tls-ca", flags.run.tls_ca,
              "who signs those daemons' certificates");
  line.Option("--tls-certificate", flags.run.tls_certificate,
              "that those daemons are shown, with --tls-key");
  line.Option("--tls-key", flags.run.tls_key, "of that certificate");
  line.Option("--public-key", flags.run.public_keys,
              "of those daemons; may be repeated");
  line.Option("--namespace", flags.run.cache_namespace,
              "whose artifacts are asked for");
  line.Flag("--verify", flags.run.verify,
            "workers verify each level of each compile");
  line.Flag("--local", flags.run.local,
            "no daemon: a worker of this process's own");
  line.Option("--kilnd", flags.run.kilnd,
              "the daemon to start (the one beside this program)");
  line.Option("--worker", flags.run.worker,
              "the worker to start (the one beside this program)");
  line.Option("--worker-env", flags.run.worker_environment,
              "NAME=VALUE, handed to workers; may be repeated");
  line.Option("--library-folder", flags.run.library_folders,
              "looked into for cuBLAS, cuDNN and oneDNN; may be repeated");
  line.Option("--cuda-dtypes", flags.run.cuda_dtypes,
              "file of results that have another dtype on CUDA than on the "
              "CPU (tests/corpus/cuda_dtypes.json)");
  line.Option("--jobs", flags.run.jobs, "files at once; 0: one a core");
  line.Option("--threads", flags.run.threads,
              "CPU threads a kernel may use; 0: one a core");
  line.Option("--case", flags.run.only_case,
              "only the cases of this name (and NAME@1)");
  line.Option("--cache-tag", flags.run.cache_tag,
              "part of the key: another word, another compile");
  line.Option("--repeat", flags.run.repeats, "times N more runs of each case");
  line.Option("--unpack", flags.unpack,
              "only write the files to this folder, as plain .jsonl and "
              ".safetensors, for other programs");
  line.Option("--report", flags.report,
              "file for the results as JSON, for scripts");
  line.Flag("--progress", flags.run.progress,
            "say on standard error what is under way");
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
      RunCorpus(flags.run, scratch);
  if (!results.ok()) {
    std::fprintf(stderr, "kiln-corpus: %s\n",
                 results.status().ToString().c_str());
    return 1;
  }
  if (results->empty()) {
    std::fprintf(stderr, "kiln-corpus: no case %s%sin the files named\n",
                 flags.run.only_case.c_str(),
                 flags.run.only_case.empty() ? "" : " ");
    return 1;
  }
  if (report.is_open() && !(report << ReportJson(*results) << std::flush)) {
    std::fprintf(stderr, "kiln-corpus: --report: %s: not written\n",
                 flags.report.c_str());
    return 1;
  }
  return Conclude(*results);
}

// Which daemons programs are told of does not decide what is tested here.
void TellUnreadAddress(const CorpusRun& run) {
  if (getenv("KILN_ADDR") == nullptr || run.local || !run.daemon.empty() ||
      !run.tcp.empty()) {
    return;
  }
  std::fputs(
      "kiln-corpus: starts a daemon of its own; KILN_ADDR is not read, "
      "--daemon "
      "SOCKET or --tcp HOST:PORT names one that runs\n",
      stderr);
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
  TellUnreadAddress(flags.run);
  FillDefaults(flags);
  if (!flags.unpack.empty()) {
    const absl::Status unpacked = UnpackFiles(flags.run.paths, flags.unpack);
    if (!unpacked.ok()) {
      std::fprintf(stderr, "kiln-corpus: %s\n", unpacked.ToString().c_str());
    }
    return unpacked.ok() ? 0 : 1;
  }
  const char* const temporary = std::getenv("TMPDIR");
  std::string scratch = absl::StrCat(temporary == nullptr ? "/tmp" : temporary,
                                     "/kiln-corpus-XXXXXX");
  if (mkdtemp(scratch.data()) == nullptr) {
    std::perror(scratch.c_str());
    return 1;
  }
  const int code = Run(flags, scratch);
  std::error_code ignored;  // a stale folder in /tmp harms nobody
  std::filesystem::remove_all(scratch, ignored);
  return code;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  // What becomes of a call is told in a case's line; gRPC would write beside it.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  return kiln::Main(argc, argv);
}

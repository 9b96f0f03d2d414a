#ifndef KILN_CLIENT_CORPUS_RUNNER_RUN_FILES_H_
#define KILN_CLIENT_CORPUS_RUNNER_RUN_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/corpus_runner/run_case.h"

namespace kiln {

// Which cases to run, and how. Filled from a command line that was checked before.
struct CorpusRun {
  std::vector<std::string> paths;  // NAME.jsonl or folders
  std::string only_case;           // NAME, with NAME@1; empty: all
  std::string device = "cpu";      // "cpu", "cuda", "cuda-compile"
  std::string arch;  // empty: sm_90 of "cuda-compile", all the CPU has

  // The socket of a running daemon. Empty: start a private daemon, or with `local` a
  // local worker.
  std::string daemon;
  // Daemons behind TCP to use instead, "host:port". `token_files` is empty or has one
  // file for each. All get the same client certificate, and `public_keys` are the keys
  // that they sign with.
  std::vector<std::string> tcp;
  std::vector<std::string> token_files;
  std::string tls_ca;
  std::string tls_certificate;
  std::string tls_key;
  std::vector<std::string> public_keys;  // 64 hexadecimal digits
  std::string cache_namespace;           // empty: "default"
  bool local = false;
  std::string kilnd;  // the programs to start
  std::string worker;
  std::vector<std::string> worker_environment;  // NAME=VALUE
  std::vector<std::string> library_folders;

  // The file for ReadCudaDTypes, if the device is "cuda". Empty: CUDA's results are
  // expected in the recorded dtypes.
  std::string cuda_dtypes;

  std::string cache_tag;  // part of the key
  int64_t repeats = 0;    // further runs of each case to time
  int64_t jobs = 0;       // files at once; 0: one per core
  int64_t threads = 0;    // CPU threads of kernels; 0: one per core
  bool verify = false;    // workers verify each level
  bool progress = false;  // show progress on standard error
};

// Runs the cases and prints a line for each, in the order of the files. `scratch` is a
// folder for the daemon and its workers. A file that cannot be read counts as a failed
// case.
//
// Errors: a path does not exist, or no file can be read; no daemon or worker; no such
// device.
absl::StatusOr<std::vector<CaseResult>> RunCorpus(const CorpusRun& run,
                                                  const std::string& scratch);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_RUN_FILES_H_

#ifndef KILN_CLIENT_CORPUS_RUNNER_RUN_FILES_H_
#define KILN_CLIENT_CORPUS_RUNNER_RUN_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/corpus_runner/run_case.h"

namespace kiln {

// Which cases are run, and through what. Filled from a command line, which is
// checked before.
struct CorpusRun {
  std::vector<std::string> paths;  // NAME.jsonl or folders
  std::string only_case;           // NAME, with NAME@1; empty: all
  std::string device = "cpu";      // "cpu", "cuda", "cuda-compile"
  std::string arch;  // empty: sm_90 of "cuda-compile", all the CPU has

  // The daemon that runs at this socket; empty: one of our own, unless `local`,
  // which takes a worker of this process's own.
  std::string daemon;
  // Instead, daemons behind TCP: "host:port", each with its file of a token, or
  // with none at all; the certificate that all are shown, with its key; and the
  // keys with which they sign.
  std::vector<std::string> tcp;
  std::vector<std::string> token_files;
  std::string tls_ca;
  std::string tls_certificate;
  std::string tls_key;
  std::vector<std::string> public_keys;  // 64 hexadecimal digits
  std::string cache_namespace;           // empty: "default"
  bool local = false;
  std::string kilnd;  // the programs that are started
  std::string worker;
  std::vector<std::string> worker_environment;  // NAME=VALUE
  std::vector<std::string> library_folders;

  // What cuda_dtypes.h reads, for "cuda"; empty: results have the recorded
  // dtypes there too.
  std::string cuda_dtypes;

  std::string cache_tag;  // part of the key
  int64_t repeats = 0;    // times so many more runs of each case
  int64_t jobs = 0;       // files at once; 0: one a core
  int64_t threads = 0;    // CPU threads of kernels; 0: one a core
  bool verify = false;    // workers verify each level
  bool progress = false;  // tell on standard error what is under way
};

// Runs them, and prints a line a case in the order of the files. `scratch` is a
// folder for the daemon and its workers. A file that can't be read is a case
// that failed.
//
// Errors: no such path, or none that can be read; no daemon or worker; no such device.
absl::StatusOr<std::vector<CaseResult>> RunCorpus(const CorpusRun& run,
                                                  const std::string& scratch);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_RUN_FILES_H_

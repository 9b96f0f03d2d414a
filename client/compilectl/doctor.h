#ifndef KILN_CLIENT_COMPILECTL_DOCTOR_H_
#define KILN_CLIENT_COMPILECTL_DOCTOR_H_

#include <string>
#include <vector>

#include "client/compilectl/answer.h"
#include "client/compilectl/commands.h"

namespace kiln {

enum class Health {
  kGood,
  kAbsent,  // fine without, less is possible
  kBad,     // something that should work does not
};

// One thing looked at, and what to type when it is not good.
struct Finding {
  std::string subject;
  Health health = Health::kGood;
  std::string found;
  std::string remedy;
};

struct DoctorOptions {
  DaemonAddress daemon;
  // The daemon's folder; its own default when empty.
  std::string data_folder;
  // Folders looked into for programs, as PATH lists them.
  std::string path;
};

// Looks at this machine: host compilers, NVRTC, the driver, oneDNN, the
// daemon's socket and its permissions, the data folder, free disk, the clock,
// the daemon and its workers' toolchains. Never fails: what cannot be looked at
// is a finding.
std::vector<Finding> Examine(const DoctorOptions& options);

// The findings as a table, or JSON.
std::string DoctorText(const std::vector<Finding>& findings,
                       OutputFormat format);

// Whether anything is kBad.
bool AnythingBad(const std::vector<Finding>& findings);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_DOCTOR_H_

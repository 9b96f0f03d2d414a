#ifndef KILN_CLIENT_COMPILECTL_DOCTOR_H_
#define KILN_CLIENT_COMPILECTL_DOCTOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/compilectl/answer.h"
#include "client/compilectl/commands.h"
#include "proto/worker.pb.h"

namespace kiln {

enum class Health {
  kGood,
  kAbsent,  // missing; Kiln works without it, but does less
  kBad,     // something that should work does not
};

// The result of one check, and what to type if it is not good.
struct Finding {
  std::string subject;
  Health health = Health::kGood;
  std::string found;
  std::string remedy;
};

// Whether the dynamic loader can load `library`, a name or a path. The library is not
// unloaded, since compilectl exits soon.
bool CanLoad(const std::string& library);

struct DoctorOptions {
  DaemonAddress daemon;
  // The data folder to check; empty: the one that the daemon names.
  std::string data_folder;
  // The default data folder of kilnd; checked if no daemon answers.
  std::string default_data_folder;
  // Starts a jailed worker as a daemon on this machine would, and asks it for its
  // compilers. Called if no daemon answers for its own workers.
  std::function<absl::StatusOr<wire::HelloReply>()> ask_worker;
  // Kiln was installed as a Python package, so remedies use pip.
  bool from_wheel = false;
  // The command that starts a daemon, without flags.
  std::string kilnd = "kilnd";
  // The first compile starts the daemon, so a missing daemon is not a fault.
  bool starts_itself = false;
  // Tests replace these two to imitate a machine with faults.
  std::function<bool(const std::string& library)> can_load = CanLoad;
  absl::Time now = absl::Now();
  // Less free disk than this is a fault: a busy day fills it.
  uint64_t least_free_bytes = uint64_t{1} << 30;
};

// Checks this machine: the host compiler and NVRTC as a worker found them (the daemon's
// worker if a daemon answers); the driver and oneDNN as programs load them; the daemon
// and its socket; the clock; the data folder and its free disk.
//
// A missing host compiler is kBad, a missing NVRTC kAbsent. A data folder that does not
// exist yet is kAbsent; one that was removed under a running daemon is kBad. The folder of
// a daemon behind TCP is not checked. Never fails: what cannot be checked is a finding.
std::vector<Finding> Examine(const DoctorOptions& options);

// The findings as text or JSON. The text is wrapped at 80 columns. What to type follows
// on a line of its own, after "-> ", and is not wrapped.
std::string DoctorText(const std::vector<Finding>& findings,
                       OutputFormat format);

// Whether anything is kBad.
bool AnythingBad(const std::vector<Finding>& findings);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_DOCTOR_H_

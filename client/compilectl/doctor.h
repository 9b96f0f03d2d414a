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

// Whether the loader takes `library`: a name, or a path. It stays loaded:
// programs like this one end soon.
bool CanLoad(const std::string& library);

struct DoctorOptions {
  DaemonAddress daemon;
  // The data folder to judge; empty: the daemon's, as it says itself.
  std::string data_folder;
  // The folder that a kilnd would take: judged when no daemon answers.
  std::string default_data_folder;
  // Asked for its compilers where no daemon tells of its workers': a worker in its
  // jail, as a daemon that was started here would start it.
  std::function<absl::StatusOr<wire::HelloReply>()> ask_worker;
  // The reader has the Python package alone: what to type is pip's.
  bool from_wheel = false;
  // What to type for a daemon, before its flags.
  std::string kilnd = "kilnd";
  // The first compile starts the daemon, so that none is not wrong.
  bool starts_itself = false;
  // What the machine says, so that a test can be a machine in trouble.
  std::function<bool(const std::string& library)> can_load = CanLoad;
  absl::Time now = absl::Now();
  // Less free disk than this, and a busy day fills it.
  uint64_t least_free_bytes = uint64_t{1} << 30;
};

// Looks at this machine: host compiler and NVRTC as a worker found them, the
// daemon's where one answers (no host compiler is kBad, no NVRTC kAbsent), the
// driver and oneDNN as programs load them, the daemon's socket and its permissions,
// the clock, the daemon, the data folder and free disk there. A folder that is not there
// yet is kAbsent, one that a daemon lost kBad. Of a daemon behind TCP the folder
// is on another machine and not looked at. Never fails: what cannot be looked at
// is a finding.
std::vector<Finding> Examine(const DoctorOptions& options);

// The findings for people, in lines of at most 80 columns where words let it:
// what to type stands below, unbroken, behind "-> ". Or JSON.
std::string DoctorText(const std::vector<Finding>& findings,
                       OutputFormat format);

// Whether anything is kBad.
bool AnythingBad(const std::vector<Finding>& findings);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_DOCTOR_H_

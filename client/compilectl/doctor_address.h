#ifndef KILN_CLIENT_COMPILECTL_DOCTOR_ADDRESS_H_
#define KILN_CLIENT_COMPILECTL_DOCTOR_ADDRESS_H_

#include "absl/status/status.h"
#include "client/compilectl/doctor.h"

namespace kiln {

// Doctor's findings about the daemon's address and about a missing daemon. `asked` is the
// status of a call to the daemon.

// For a Unix socket: whether it exists, who owns it, and whether a kilnd answers. The
// socket's mode is not checked: it is 0666 if [[access]] admits other users, and the
// daemon always asks the kernel who calls. For TCP: whether a kilnd answers.
Finding AddressFinding(const DoctorOptions& options, const absl::Status& asked);

// `asked` must be an error.
Finding NoDaemonFinding(const DoctorOptions& options,
                        const absl::Status& asked);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_DOCTOR_ADDRESS_H_

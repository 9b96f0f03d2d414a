#ifndef KILN_CLIENT_COMPILECTL_DOCTOR_ADDRESS_H_
#define KILN_CLIENT_COMPILECTL_DOCTOR_ADDRESS_H_

#include "absl/status/status.h"
#include "client/compilectl/doctor.h"

namespace kiln {

// What doctor says of the daemon's address and of a daemon that is not there.
// `asked`: what became of asking it.

// The socket: whether it is there, whose it is, and whether a kilnd answers at it.
// Its mode says nothing: a daemon that [[access]] opens to users has 0666, and each
// daemon asks the kernel who calls. Of TCP whether a kilnd answers there.
Finding AddressFinding(const DoctorOptions& options, const absl::Status& asked);

// `asked` is an error.
Finding NoDaemonFinding(const DoctorOptions& options,
                        const absl::Status& asked);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_DOCTOR_ADDRESS_H_

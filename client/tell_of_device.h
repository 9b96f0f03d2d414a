#ifndef KILN_CLIENT_TELL_OF_DEVICE_H_
#define KILN_CLIENT_TELL_OF_DEVICE_H_

#include "proto/compile_service.pb.h"
#include "runtime/opened_device.h"

namespace kiln {

// Puts into a request what the device says of itself: its driver's version; and the
// option own_attention, where the graph holds an attention that no library on the
// machine computes. Looks for that library only then.
void TellOfDevice(const OpenedDevice& device, wire::CompileRequest& request);

}  // namespace kiln

#endif  // KILN_CLIENT_TELL_OF_DEVICE_H_

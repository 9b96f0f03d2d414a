#ifndef KILN_CLIENT_TELL_OF_DEVICE_H_
#define KILN_CLIENT_TELL_OF_DEVICE_H_

#include "proto/compile_service.pb.h"
#include "runtime/opened_device.h"

namespace kiln {

// Adds to a request what the compiler must know of the device: its driver's version, and
// the option own_attention if the graph has an attention and no library on this machine
// computes it. The library is only looked for if there is an attention.
void TellOfDevice(const OpenedDevice& device, wire::CompileRequest& request);

}  // namespace kiln

#endif  // KILN_CLIENT_TELL_OF_DEVICE_H_

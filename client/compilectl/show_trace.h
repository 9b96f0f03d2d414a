#ifndef KILN_CLIENT_COMPILECTL_SHOW_TRACE_H_
#define KILN_CLIENT_COMPILECTL_SHOW_TRACE_H_

#include <string>

#include "proto/admin_service.pb.h"

namespace kiln {

// An entry as a Chrome trace, for Perfetto and chrome://tracing. Two processes:
//
//   1  the compile: row 0 has the phases of the job that made the entry; the other rows
//      have the units that workers built for it, in parallel. Times are microseconds
//      since the first caller came.
//   2  the plan: its steps in order. Each is shown as one microsecond, since an artifact
//      has no times. The arguments are the step's plan text, the operators and nodes
//      that it computes, and for a kernel its symbol, mapping and bytes.
std::string ShowTrace(const wire::ShowReply& reply);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_SHOW_TRACE_H_

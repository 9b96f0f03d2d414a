#ifndef KILN_CLIENT_COMPILECTL_SHOW_TRACE_H_
#define KILN_CLIENT_COMPILECTL_SHOW_TRACE_H_

#include <string>

#include "proto/admin_service.pb.h"

namespace kiln {

// An entry as a Chrome trace, for Perfetto and chrome://tracing. Two processes:
//
//   1  the compile: the phases of the job that made the entry, row 0, and the
//      units that workers built for it, a row for each that ran at one time.
//      Microseconds from when its first caller came
//   2  the plan: its steps in order, each a microsecond long, since an artifact
//      knows no times. Arguments: the step as plan text has it, the operators and
//      nodes of the graph that it does work of, and of a kernel symbol, mapping
//      and bytes
std::string ShowTrace(const wire::ShowReply& reply);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_SHOW_TRACE_H_

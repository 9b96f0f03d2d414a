#ifndef KILN_CLIENT_C_API_C_GRAPH_OPTIONS_H_
#define KILN_CLIENT_C_API_C_GRAPH_OPTIONS_H_

#include "absl/status/status.h"
#include "client/c_api/kiln_graphs.h"
#include "runtime/plan_graphs/graph_options.h"

namespace kiln {

// Checks and reads a C caller's options for device graphs. Null: the defaults.
absl::Status CheckGraphOptions(const KilnGraphOptions* given);
GraphOptions GraphOptionsOf(const KilnGraphOptions* given);

}  // namespace kiln

#endif  // KILN_CLIENT_C_API_C_GRAPH_OPTIONS_H_

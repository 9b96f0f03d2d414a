#ifndef KILN_CLIENT_PYTHON_NATIVE_LIBRARY_H_
#define KILN_CLIENT_PYTHON_NATIVE_LIBRARY_H_

/* libkiln.so, opened apart from everything else in the process: its symbols
 * serve it alone, and it sees its own libraries first. So gRPC and Protobuf may
 * be in the process twice, in different versions. */

#include "client/c_api/kiln.h"
#include "client/c_api/kiln_graphs.h"

#define KILN_LIBRARY_FUNCTIONS(X) \
  X(kiln_abi_version)             \
  X(kiln_status_code)             \
  X(kiln_status_reason)           \
  X(kiln_status_message)          \
  X(kiln_status_refusal_count)    \
  X(kiln_status_refusal_node)     \
  X(kiln_status_refusal_operator) \
  X(kiln_status_refusal_reason)   \
  X(kiln_status_refusal_text)     \
  X(kiln_status_refuses_more)     \
  X(kiln_status_free)             \
  X(kiln_session_open)            \
  X(kiln_session_close)           \
  X(kiln_shelf_new)               \
  X(kiln_shelf_free)              \
  X(kiln_shelf_save)              \
  X(kiln_shelf_load)              \
  X(kiln_bundle_devices)          \
  X(kiln_graph_parse)             \
  X(kiln_graph_free)              \
  X(kiln_compile_with)            \
  X(kiln_callable_report)         \
  X(kiln_callable_text)           \
  X(kiln_callable_free)           \
  X(kiln_run_with)                \
  X(kiln_launch_name)             \
  X(kiln_launch_facts)            \
  X(kiln_trace_new)               \
  X(kiln_trace_free)              \
  X(kiln_trace_json)              \
  X(kiln_trace_now)               \
  X(kiln_trace_add_replay)        \
  X(kiln_results_count)           \
  X(kiln_results_get)             \
  X(kiln_results_share)           \
  X(kiln_results_free)            \
  X(kiln_memory_data)             \
  X(kiln_memory_free)             \
  X(kiln_graph_tree_new)          \
  X(kiln_graph_tree_free)         \
  X(kiln_graph_tree_add)          \
  X(kiln_graph_tree_remove)       \
  X(kiln_graph_tree_run)          \
  X(kiln_graph_tree_shutdown)     \
  X(kiln_graph_tree_backward_ran) \
  X(kiln_graph_tree_report)       \
  X(kiln_graph_tree_nodes)        \
  X(kiln_graph_tree_notes)

typedef struct KilnLibrary {
#define KILN_LIBRARY_MEMBER(name) __typeof__(&name) name;
  KILN_LIBRARY_FUNCTIONS(KILN_LIBRARY_MEMBER)
#undef KILN_LIBRARY_MEMBER
} KilnLibrary;

/* All null until kiln_library_open. Read only after that. */
extern KilnLibrary kiln_library;

/* Opens the library at `path` and finds its functions. 0, or -1 with what was
 * wrong in `message`. Call it once. */
int kiln_library_open(const char* path, char* message, int message_bytes);

#endif /* KILN_CLIENT_PYTHON_NATIVE_LIBRARY_H_ */

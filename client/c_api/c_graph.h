#ifndef KILN_CLIENT_C_API_C_GRAPH_H_
#define KILN_CLIENT_C_API_C_GRAPH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "client/c_api/kiln.h"
#include "proto/graph.pb.h"

// A graph under construction. The functions kiln_graph_* in c_graph.cc build it. They
// check their arguments and keep the first mistake.
struct KilnGraph {
  kiln::wire::Graph graph;
  kiln::wire::DeviceType device = kiln::wire::DEVICE_TYPE_CPU;
  uint32_t next_value = 0;
  // INVALID_ARGUMENT: names the node or input, what was found and what was expected.
  absl::Status mistake;
};

#endif  // KILN_CLIENT_C_API_C_GRAPH_H_

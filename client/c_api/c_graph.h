#ifndef KILN_CLIENT_C_API_C_GRAPH_H_
#define KILN_CLIENT_C_API_C_GRAPH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "client/c_api/kiln.h"
#include "proto/graph.pb.h"

// A graph under construction, as the functions kiln_graph_* in c_graph.cc write
// it: each looks at what it is given and keeps the first mistake.
struct KilnGraph {
  kiln::wire::Graph graph;
  kiln::wire::DeviceType device = kiln::wire::DEVICE_TYPE_CPU;
  uint32_t next_value = 0;
  // INVALID_ARGUMENT, with the node or input: found what, due what.
  absl::Status mistake;
};

#endif  // KILN_CLIENT_C_API_C_GRAPH_H_

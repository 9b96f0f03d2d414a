#ifndef KILN_CLIENT_CORPUS_RUNNER_RETARGET_GRAPH_H_
#define KILN_CLIENT_CORPUS_RUNNER_RETARGET_GRAPH_H_

#include "proto/graph.pb.h"

namespace kiln {

// Moves a graph that was captured on another device to `device`: every tensor, and every
// device that an operator names. The recorded metas of results are dropped, since they
// may differ: CUDA's layer norm returns f32 statistics for half types, the CPU's does
// not.
void RetargetGraph(wire::Graph& graph, wire::DeviceType device);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_RETARGET_GRAPH_H_

#ifndef KILN_CLIENT_CORPUS_RUNNER_RETARGET_GRAPH_H_
#define KILN_CLIENT_CORPUS_RUNNER_RETARGET_GRAPH_H_

#include "proto/graph.pb.h"

namespace kiln {

// Moves every tensor of `graph`, and every device that an operator names, to
// `device`: corpus graphs were captured on one and are run on another. What was
// recorded of a result elsewhere is forgotten, since it may differ here: CUDA's
// layer norm gives f32 statistics of half types, the CPU's does not.
void RetargetGraph(wire::Graph& graph, wire::DeviceType device);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_RETARGET_GRAPH_H_

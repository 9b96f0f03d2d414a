#ifndef KILN_RUNTIME_GRAPH_TREE_MUTATION_POLICY_H_
#define KILN_RUNTIME_GRAPH_TREE_MUTATION_POLICY_H_

#include <string>

#include "runtime/graph_tree/path.h"
#include "runtime/graph_tree/recorder.h"

// Which inputs a graph may write to. A replay writes where the recording did,
// so a written input must keep its address: a static one, or an output of a
// graph on the path.

namespace kiln::graph_tree {

// How many of the inputs that `function` writes to it may not. `path`: whose
// outputs it may.
int CountRefusedMutations(const Function& function, const Call& call,
                          Path path);

// "skipping cudagraphs due to mutated inputs (2 instances). ..."
std::string MutationText(const Function& function, int count);

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_MUTATION_POLICY_H_

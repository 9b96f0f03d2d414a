#include "runtime/graph_tree/mutation_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln::graph_tree {

int CountRefusedMutations(const Function& function, const Call& call,
                          Path path) {
  return static_cast<int>(
      std::count_if(function.mutated_inputs.begin(),
                    function.mutated_inputs.end(), [&](int input) {
                      const Input& given = call.inputs[input];
                      return !IsStatic(function, input, given.address) &&
                             !IsManaged(path, given.storage_address);
                    }));
}

std::string MutationText(const Function& function, int count) {
  std::string text = absl::StrCat("skipping cudagraphs due to mutated inputs (",
                                  count, " instances)");
  if (!function.mutation_trace.empty()) {
    absl::StrAppend(&text, ". Found from : \n ", function.mutation_trace);
  }
  return text;
}

}  // namespace kiln::graph_tree

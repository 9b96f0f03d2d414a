#include "runtime/graph_tree/mutation_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln::graph_tree {

int CountRefusedMutations(const Function& function, const Call& call,
                          Path path) {
  const std::vector<int>& fixed = function.static_inputs;
  return static_cast<int>(std::count_if(
      function.mutated_inputs.begin(), function.mutated_inputs.end(),
      [&](int input) {
        return std::find(fixed.begin(), fixed.end(), input) == fixed.end() &&
               !IsManaged(path, call.inputs[input].storage_address);
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

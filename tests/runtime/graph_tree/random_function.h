#ifndef KILN_TESTS_RUNTIME_GRAPH_TREE_RANDOM_FUNCTION_H_
#define KILN_TESTS_RUNTIME_GRAPH_TREE_RANDOM_FUNCTION_H_

#include <random>
#include <vector>

#include "runtime/graph_tree/recorder.h"
#include "tests/runtime/graph_tree/fake_framework.h"

namespace kiln::graph_tree {

class Dice {
 public:
  explicit Dice(int seed) : bits_(seed) {}
  int Below(int end) { return static_cast<int>(bits_() % end); }
  bool OneIn(int n) { return Below(n) == 0; }

 private:
  std::minstd_rand bits_;
};

// Whole tensors have this size; those alone are inputs.
inline constexpr int64_t kCellsOfAnInput = 4;

struct RandomFunctionOptions {
  bool writes_to_inputs = false;  // else outputs may alias them
  bool consumes_inputs = false;   // the caller keeps none of some
};

// Operators upon numbered values, inputs first.
struct RandomFunction {
  struct Step {
    enum class Kind { kAffine, kView, kDrop, kAddInPlace };
    Kind kind = Kind::kAffine;
    std::vector<int> from;  // values
    int64_t a = 0, b = 0, cells = 0;
  };
  int inputs = 0;
  bool has_parameter = false;  // the last input, static
  std::vector<bool> consumed;  // by input
  std::vector<Step> steps;
  std::vector<int> outputs;  // values; -1: None
  Function facts;

  FakeBody Body() const;
};

RandomFunction MakeRandomFunction(Dice& dice,
                                  const RandomFunctionOptions& options);

}  // namespace kiln::graph_tree

#endif  // KILN_TESTS_RUNTIME_GRAPH_TREE_RANDOM_FUNCTION_H_

#include "tests/runtime/graph_tree/random_function.h"

#include <set>
#include <utility>

namespace kiln::graph_tree {
namespace {

using Step = RandomFunction::Step;
using Kind = Step::Kind;

// Writes a function, and knows what of its values can be used.
class Writer {
 public:
  Writer(Dice& dice, const RandomFunctionOptions& options)
      : dice_(dice), options_(options) {}

  RandomFunction Write() {
    made_.inputs = dice_.Below(3);
    made_.has_parameter = dice_.OneIn(3) || made_.inputs == 0;
    made_.inputs += made_.has_parameter;
    for (int i = 0; i < made_.inputs; ++i) {
      const bool is_parameter = made_.has_parameter && i == made_.inputs - 1;
      values_.push_back({kCellsOfAnInput, i});
      made_.consumed.push_back(!is_parameter && options_.consumes_inputs &&
                               dice_.OneIn(2));
      if (is_parameter) made_.facts.static_inputs.push_back(i);
      if (options_.writes_to_inputs && dice_.OneIn(3)) {
        made_.facts.mutated_inputs.push_back(i);
        Add({Kind::kAddInPlace, {i}, 0, 1 + dice_.Below(9), 0});
      }
    }
    const int steps = 1 + dice_.Below(6);
    for (int i = 0; i < steps; ++i) AddStep();
    const int outputs = 1 + dice_.Below(3);
    for (int i = 0; i < outputs; ++i) AddOutput();
    return std::move(made_);
  }

 private:
  struct Value {
    int64_t cells;
    int input;  // whose memory it is; -1: its own
  };

  void Add(Step step) { made_.steps.push_back(std::move(step)); }

  int Any() { return dice_.Below(static_cast<int>(values_.size())); }

  void AddStep() {
    const int at = Any();
    switch (dice_.Below(5)) {
      case 0:
        if (dropped_.contains(at)) return;
        dropped_.insert(at);
        return Add({Kind::kDrop, {at}, 0, 0, 0});
      case 1: {
        if (dropped_.contains(at)) return;
        const int64_t offset = dice_.Below(static_cast<int>(values_[at].cells));
        const int64_t cells = values_[at].cells - offset;
        values_.push_back({cells, values_[at].input});
        return Add({Kind::kView, {at}, offset, 0, cells});
      }
      case 2:
        if (dropped_.contains(at) || values_[at].input >= 0) return;
        return Add({Kind::kAddInPlace, {at}, 0, 1 + dice_.Below(9), 0});
      default:
        return AddAffine();
    }
  }

  void AddAffine() {
    Step step{Kind::kAffine,
              {},
              1 + dice_.Below(5),
              dice_.Below(100),
              dice_.OneIn(3) ? 1 + dice_.Below(7) : kCellsOfAnInput};
    for (int i = 0; i < 2; ++i) {
      const int at = Any();
      if (!dropped_.contains(at)) step.from.push_back(at);
    }
    values_.push_back({step.cells, -1});
    Add(std::move(step));
  }

  void AddOutput() {
    const int at = Any();
    const bool may = !dropped_.contains(at) &&
                     (values_[at].input < 0 || !options_.writes_to_inputs);
    made_.outputs.push_back(may ? at : -1);
  }

  Dice& dice_;
  const RandomFunctionOptions options_;
  RandomFunction made_;
  std::vector<Value> values_;
  std::set<int> dropped_;
};

}  // namespace

FakeBody RandomFunction::Body() const {
  return [steps = steps, outputs = outputs](FakeFramework& framework,
                                            FakeTensors values) {
    for (const Step& step : steps) {
      switch (step.kind) {
        case Kind::kAffine: {
          FakeTensors from;
          for (const int at : step.from) from.push_back(values[at]);
          values.push_back(framework.Affine(from, step.a, step.b, step.cells));
          break;
        }
        case Kind::kView:
          values.push_back(
              framework.View(values[step.from[0]], step.a, step.cells));
          break;
        case Kind::kDrop:
          values[step.from[0]] = nullptr;
          break;
        case Kind::kAddInPlace:
          framework.AddInPlace(values[step.from[0]], step.b);
          break;
      }
    }
    FakeTensors results;
    for (const int at : outputs) {
      results.push_back(at < 0 ? nullptr : values[at]);
    }
    return results;
  };
}

RandomFunction MakeRandomFunction(Dice& dice,
                                  const RandomFunctionOptions& options) {
  return Writer(dice, options).Write();
}

}  // namespace kiln::graph_tree

#ifndef KILN_TESTS_RUNTIME_GRAPH_TREE_TREE_RIG_H_
#define KILN_TESTS_RUNTIME_GRAPH_TREE_TREE_RIG_H_

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/graph_tree/graph_tree.h"
#include "tests/runtime/graph_tree/fake_framework.h"

namespace kiln::graph_tree {

// A tree over a fake framework, and a user of it.
class TreeRig {
 public:
  TreeRig()
      : tree({&framework, &framework, &framework}, generations, "(0, 1)") {}

  int Add(FakeBody body, Function function = {}) {
    bodies_.push_back(std::make_unique<FakeBody>(std::move(body)));
    function.body = bodies_.back().get();
    function.options.check_pool = checks_pool;
    return tree.AddFunction(std::move(function));
  }

  absl::Status TryCall(int function, FakeTensors inputs, FakeTensors& outputs,
                       int64_t thread = 0) {
    FakeCall caller;
    Call call;
    for (const FakeTensorPtr& input : inputs) {
      call.inputs.push_back(InputOf(input));
    }
    caller.inputs = std::move(inputs);
    call.caller = &caller;
    call.thread = thread;
    const absl::Status status = tree.Run(function, call);
    outputs = std::move(caller.outputs);
    return status;
  }

  // Inside of the user's current iteration.
  FakeTensors Continue(int function, FakeTensors inputs) {
    FakeTensors outputs;
    const absl::Status status = TryCall(function, std::move(inputs), outputs);
    EXPECT_TRUE(status.ok()) << status;
    return outputs;
  }

  // What a front end says of its iterations.
  void BeginCall() { generations.Set(++calls_, marks_); }
  void MarkStepBegin() { generations.Set(calls_, ++marks_); }

  // The first call of a new iteration.
  FakeTensors Begin(int function, FakeTensors inputs) {
    BeginCall();
    return Continue(function, std::move(inputs));
  }

  // The value in all cells, or what its access says.
  std::string Value(const FakeTensorPtr& tensor) const {
    const auto cells = framework.Read(tensor);
    if (!cells.ok()) return std::string(cells.status().message());
    for (const int64_t cell : *cells) EXPECT_EQ(cell, cells->front());
    return cells->empty() ? "" : std::to_string(cells->front());
  }

  FakeTensorPtr Full(int64_t value, int64_t cells = 4) {
    return framework.Full(cells, value);
  }

  size_t Blocks() const { return framework.PoolBlocks().size(); }
  // "0(1 2(3))": ids of recordings, with children.
  std::string Shape() const;
  std::vector<std::string> Notes();

  bool checks_pool = true;  // of functions that are added from now on
  FakeFramework framework;
  Generations generations;
  GraphTree tree;

 private:
  int64_t calls_ = 0;
  int64_t marks_ = 0;
  std::vector<std::unique_ptr<FakeBody>> bodies_;
};

// x -> a * x + b
FakeBody Scale(int64_t a, int64_t b);

}  // namespace kiln::graph_tree

#endif  // KILN_TESTS_RUNTIME_GRAPH_TREE_TREE_RIG_H_

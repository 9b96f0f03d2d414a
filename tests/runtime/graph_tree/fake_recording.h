#ifndef KILN_TESTS_RUNTIME_GRAPH_TREE_FAKE_RECORDING_H_
#define KILN_TESTS_RUNTIME_GRAPH_TREE_FAKE_RECORDING_H_

#include <functional>
#include <vector>

#include "runtime/graph_tree/recorder.h"
#include "tests/runtime/graph_tree/fake_framework.h"

namespace kiln::graph_tree {

// The kernels that a body launched while it was captured, with their addresses.
class FakeRecording : public Recording {
 public:
  explicit FakeRecording(FakeFramework& framework) : framework_(framework) {}

  // Puts a tensor on the pool's memory in the place of `input`. Its values get
  // there before the first run: a graph whose kernels ran as they are captured
  // would have written over them.
  void TakeIntoPool(size_t index, FakeTensorPtr& input);
  void SetOutputs(FakeTensors outputs);

  absl::Span<const Output> outputs() const override { return outputs_; }
  absl::Status FirstRun(Call& call,
                        absl::Span<const OutputRule> rules) override;
  absl::Status Replay(Call& call, absl::Span<const OutputRule> rules,
                      absl::Span<Storage> storages) override;
  Tensor cached(int output) const override;
  void DropCached(int output) override { cached_[output] = nullptr; }

 private:
  friend class FakeFramework;

  struct CopiedInput {
    size_t index;
    int64_t* slot;
    std::vector<int64_t> first;
  };
  struct Layout {
    int64_t* storage;
    int64_t offset;
    int64_t cells;
  };

  void RunKernels() const;
  FakeTensorPtr Rebuild(const OutputRule& rule, size_t output,
                        const FakeTensors& earlier);

  FakeFramework& framework_;
  std::vector<std::function<void()>> kernels_;
  std::vector<CopiedInput> copied_;
  std::vector<Output> outputs_;
  std::vector<Layout> layouts_;
  FakeTensors first_outputs_;
  FakeTensors static_outputs_;
  FakeTensors cached_;
};

}  // namespace kiln::graph_tree

#endif  // KILN_TESTS_RUNTIME_GRAPH_TREE_FAKE_RECORDING_H_

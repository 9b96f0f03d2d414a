#include "tests/runtime/graph_tree/fake_recording.h"

#include <algorithm>
#include <utility>

#include "gtest/gtest.h"

namespace kiln::graph_tree {

void FakeRecording::TakeIntoPool(size_t index, FakeTensorPtr& input) {
  FakeTensorPtr slot = framework_.New(input->cells());
  copied_.push_back({index, slot->address(),
                     std::vector<int64_t>(input->address(),
                                          input->address() + input->cells())});
  input = std::move(slot);
}

void FakeRecording::SetOutputs(FakeTensors outputs) {
  first_outputs_ = std::move(outputs);
  cached_.resize(first_outputs_.size());
  static_outputs_.resize(first_outputs_.size());
  for (size_t i = 0; i < first_outputs_.size(); ++i) {
    const FakeTensorPtr& output = first_outputs_[i];
    outputs_.push_back(OutputOf(output));
    layouts_.push_back({});
    if (output == nullptr) continue;
    layouts_[i] = {output->storage()->address, output->offset(),
                   output->cells()};
  }
}

void FakeRecording::RunKernels() const {
  for (const auto& kernel : kernels_) kernel();
}

absl::Status FakeRecording::FirstRun(Call& call,
                                     absl::Span<const OutputRule> rules) {
  for (CopiedInput& input : copied_) {
    std::copy(input.first.begin(), input.first.end(), input.slot);
    input.first.clear();
  }
  RunKernels();
  for (size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].kind == OutputRule::Kind::kStatic) {
      static_outputs_[i] = first_outputs_[i];
    }
  }
  static_cast<FakeCall*>(call.caller)->outputs = std::move(first_outputs_);
  return absl::OkStatus();
}

absl::Status FakeRecording::Replay(Call& call,
                                   absl::Span<const OutputRule> rules,
                                   absl::Span<Storage> storages) {
  auto& caller = *static_cast<FakeCall*>(call.caller);
  for (const CopiedInput& input : copied_) {
    const FakeTensorPtr& from = caller.inputs[input.index];
    std::copy(from->address(), from->address() + from->cells(), input.slot);
  }
  RunKernels();
  FakeTensors results;
  for (size_t i = 0; i < rules.size(); ++i) {
    results.push_back(Rebuild(rules[i], i, results));
    storages[i] = results[i] ? results[i]->storage() : nullptr;
  }
  caller.inputs.clear();  // some outputs were on their storages
  caller.outputs = std::move(results);
  return absl::OkStatus();
}

FakeTensorPtr FakeRecording::Rebuild(const OutputRule& rule, size_t output,
                                     const FakeTensors& earlier) {
  using Kind = OutputRule::Kind;
  const Layout& layout = layouts_[output];
  const auto on = [&](FakeStorage* storage) {
    return std::make_shared<FakeTensor>(storage, layout.offset, layout.cells);
  };
  const auto fresh = [&] {
    auto* storage = new FakeStorage;
    storage->address = layout.storage;
    return on(storage);
  };
  switch (rule.kind) {
    case Kind::kValue:
      return nullptr;
    case Kind::kStatic:
      return static_outputs_[output];
    case Kind::kCached:
      if (cached_[output] == nullptr) cached_[output] = fresh();
      return cached_[output];
    case Kind::kFresh:
      return fresh();
    case Kind::kOfOutput:
      return on(earlier[rule.index]->storage());
    case Kind::kOfStorage: {
      auto* storage = static_cast<FakeStorage*>(rule.storage);
      EXPECT_GT(storage->tensors, 0) << "a dead storage";
      return on(storage);
    }
  }
  return nullptr;
}

Tensor FakeRecording::cached(int output) const {
  const FakeTensorPtr& tensor = cached_[output];
  return tensor ? const_cast<FakeTensorPtr*>(&tensor) : nullptr;
}

}  // namespace kiln::graph_tree

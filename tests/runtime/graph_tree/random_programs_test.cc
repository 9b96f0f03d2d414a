// Random programs over a tree, beside the same over memory that nothing shares:
// they allocate, keep, drop, alias and call in random order, and what they hold
// must be equal at all times.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/graph_tree/random_function.h"
#include "tests/runtime/graph_tree/tree_rig.h"

namespace kiln::graph_tree {
namespace {

struct Kind {
  std::string name;
  RandomFunctionOptions functions;
  bool has_backwards = false;
  bool keeps_stale = false;  // outputs of earlier iterations, unread
  // Calls come from two threads, parameters move, bodies fail, and pools are lost.
  bool is_disturbed = false;
};

class Program {
 public:
  Program(int seed, const Kind& kind)
      : dice_(seed), kind_(kind), plain_(Reuse::kNever) {
    if (kind_.is_disturbed && dice_.OneIn(2)) rig_.framework.LosePools();
    const int functions = 1 + dice_.Below(4);
    for (int i = 0; i < functions; ++i) AddFunction();
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      switch (dice_.Below(8)) {
        case 0:
          BeginIteration();
          break;
        case 1:
          Drop();
          break;
        case 2:
          Alias();
          break;
        case 3:
          Compute();
          break;
        default:
          Call();
      }
      Compare();
    }
  }

  void End() {
    kept_.clear();
    stale_.clear();
    rig_.tree.Shutdown();
    EXPECT_EQ(rig_.Blocks(), 0u);
  }

  const TreeCounters& counters() const { return rig_.tree.counters(); }
  int failures() const { return failures_; }
  int thread_changes() const { return rig_.framework.thread_changes; }

 private:
  // One tensor of the user in both worlds.
  struct Pair {
    FakeTensorPtr tree;
    FakeTensorPtr plain;
    bool is_output = false;  // its memory is the next iteration's
  };
  struct Known {
    RandomFunction function;
    FakeBody body;
    int id = 0;
    Pair parameter;
  };

  Pair Fresh() {
    const int64_t value = dice_.Below(1000);
    return {rig_.framework.Full(kCellsOfAnInput, value),
            plain_.Full(kCellsOfAnInput, value)};
  }

  void AddFunction() {
    Known known{MakeRandomFunction(dice_, kind_.functions)};
    known.body = known.function.Body();
    Function facts = known.function.facts;
    if (kind_.has_backwards && dice_.OneIn(2)) {
      facts.mode = dice_.OneIn(2) ? Mode::kForward : Mode::kBackward;
    }
    known.id = rig_.Add(known.function.Body(), facts);
    if (known.function.has_parameter) known.parameter = Fresh();
    known_.push_back(std::move(known));
  }

  void BeginIteration() {
    rig_.BeginCall();
    std::vector<Pair> kept;
    for (Pair& pair : std::exchange(kept_, {})) {
      if (!pair.is_output) {
        kept.push_back(std::move(pair));
      } else if (kind_.keeps_stale && dice_.OneIn(3)) {
        stale_.push_back(std::move(pair.tree));
      }
    }
    kept_ = std::move(kept);
    while (stale_.size() > 3) stale_.erase(stale_.begin());
  }

  void Drop() {
    if (kept_.empty()) return;
    kept_.erase(kept_.begin() + dice_.Below(static_cast<int>(kept_.size())));
  }

  void Alias() {
    if (kept_.empty()) return;
    const Pair of = kept_[dice_.Below(static_cast<int>(kept_.size()))];
    const int64_t offset = dice_.Below(static_cast<int>(of.plain->cells()));
    const int64_t cells = of.plain->cells() - offset;
    kept_.push_back({rig_.framework.View(of.tree, offset, cells),
                     plain_.View(of.plain, offset, cells), of.is_output});
  }

  void Compute() {
    FakeTensors tree, plain;
    for (int i = 0; i < 2 && !kept_.empty(); ++i) {
      const Pair& of = kept_[dice_.Below(static_cast<int>(kept_.size()))];
      tree.push_back(of.tree);
      plain.push_back(of.plain);
    }
    kept_.push_back({rig_.framework.Affine(tree, 2, 3, kCellsOfAnInput),
                     plain_.Affine(plain, 2, 3, kCellsOfAnInput)});
  }

  // A tensor of the user, or a new one; never one that shares memory with
  // another input.
  Pair Choose(const std::vector<Pair>& taken) {
    for (int i = 0; i < 4 && !kept_.empty(); ++i) {
      const Pair& pair = kept_[dice_.Below(static_cast<int>(kept_.size()))];
      bool fits = pair.plain->cells() == kCellsOfAnInput;
      for (const Pair& other : taken) {
        fits &= other.plain->storage() != pair.plain->storage();
      }
      for (const Known& known : known_) {
        fits &= known.parameter.plain == nullptr ||
                known.parameter.plain->storage() != pair.plain->storage();
      }
      if (fits) return pair;
    }
    return Fresh();
  }

  // The user holds it no more.
  void Forget(const FakeStorage* storage) {
    std::erase_if(kept_, [&](const Pair& pair) {
      return pair.plain->storage() == storage;
    });
  }

  // For the next call.
  void Disturb(Known& known) {
    if (dice_.OneIn(6)) thread_ = dice_.Below(2);
    if (known.function.has_parameter && dice_.OneIn(6)) {
      known.parameter = Fresh();
    }
    if (dice_.OneIn(10)) rig_.framework.FailNext(absl::AbortedError("a body"));
  }

  void Call() {
    Known& known = known_[dice_.Below(static_cast<int>(known_.size()))];
    if (kind_.is_disturbed) Disturb(known);
    const int inputs = known.function.inputs;
    std::vector<Pair> chosen;
    for (int i = 0; i < inputs; ++i) {
      const bool is_parameter = known.function.has_parameter && i == inputs - 1;
      chosen.push_back(is_parameter ? known.parameter : Choose(chosen));
    }
    FakeTensors tree, plain;
    for (int i = 0; i < inputs; ++i) {
      tree.push_back(chosen[i].tree);
      plain.push_back(chosen[i].plain);
      if (known.function.consumed[i]) Forget(chosen[i].plain->storage());
    }
    chosen.clear();
    FakeTensors outputs;
    const absl::Status status =
        rig_.TryCall(known.id, std::move(tree), outputs, thread_);
    if (kind_.is_disturbed && status == absl::AbortedError("a body")) {
      ++failures_;
      return;
    }
    ASSERT_TRUE(status.ok()) << status;
    FakeTensors expected = known.body(plain_, std::move(plain));
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == nullptr || dice_.OneIn(3)) continue;
      kept_.push_back({std::move(outputs[i]), std::move(expected[i]), true});
    }
  }

  void Compare() const {
    for (const Pair& pair : kept_) {
      const auto is = rig_.framework.Read(pair.tree);
      ASSERT_TRUE(is.ok()) << is.status();
      ASSERT_EQ(*is, *plain_.Read(pair.plain));
    }
  }

  Dice dice_;
  const Kind kind_;
  TreeRig rig_;
  FakeFramework plain_;
  std::vector<Known> known_;
  std::vector<Pair> kept_;
  std::vector<FakeTensorPtr> stale_;
  int64_t thread_ = 0;
  int failures_ = 0;
};

class RandomPrograms : public testing::TestWithParam<Kind> {};

// Enough that the arena without reuse holds all that a program makes.
constexpr int kSteps = 120;

TEST_P(RandomPrograms, HoldWhatTheyWouldInMemoryOfTheirOwn) {
  TreeCounters all;
  int failures = 0, thread_changes = 0;
  for (int seed = 1; seed <= 250; ++seed) {
    SCOPED_TRACE(seed);
    Program program(seed, GetParam());
    program.Run(kSteps);
    program.End();
    ASSERT_FALSE(HasFailure());
    all.recordings += program.counters().recordings;
    all.replays += program.counters().replays;
    all.checkpoints += program.counters().checkpoints;
    failures += program.failures();
    thread_changes += program.thread_changes();
  }
  // They do what they are there for.
  EXPECT_GT(all.recordings, 2000);
  EXPECT_GT(all.replays, 2000);
  EXPECT_GT(all.checkpoints, 500);
  EXPECT_EQ(failures > 500, GetParam().is_disturbed);
  EXPECT_EQ(thread_changes > 500, GetParam().is_disturbed);
  std::cout << all.recordings << " recordings, " << all.replays << " replays, "
            << all.checkpoints << " restores\n";
}

INSTANTIATE_TEST_SUITE_P(
    GraphTree, RandomPrograms,
    testing::Values(Kind{"Kept", {}, false, true},
                    Kind{"Consumed", {.consumes_inputs = true}},
                    Kind{"Written", {.writes_to_inputs = true}},
                    Kind{"Backwards", {.consumes_inputs = true}, true},
                    Kind{"Disturbed", {}, false, true, true},
                    Kind{"DisturbedAndConsumed",
                         {.consumes_inputs = true},
                         true,
                         false,
                         true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kiln::graph_tree

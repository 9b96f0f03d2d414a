// Device graphs for a framework in C: a host of one kind of function, whose
// result lies in memory of its own.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/c_api/kiln.h"
#include "client/c_api/kiln_graphs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using testing::ElementsAre;

// gRPC's.
constexpr int kInvalidArgument = 3;
constexpr int kFailedPrecondition = 9;
constexpr int kInternal = 13;

struct Storage {
  bool live = true;
  int watchers = 0;
};

struct Framework {
  Storage result;
  int64_t memory = 0;  // of the result
  std::vector<const void*> stray;
  std::function<void()> in_body = [] {};
  bool fails = false;
  std::vector<std::string> log;
};

Framework& Of(void* context) { return *static_cast<Framework*>(context); }

int32_t RunBody(void* context, const char* how, KilnGraphTell tell,
                void* outputs) {
  Framework& framework = Of(context);
  framework.log.push_back(how);
  framework.in_body();
  if (framework.fails) return -1;
  framework.result.live = true;
  const KilnGraphOutput output = {1, 1, &framework.result, &framework.memory};
  if (tell != nullptr) tell(outputs, &output);
  return 0;
}

KilnGraphHost HostOf(Framework& framework) {
  KilnGraphHost host = {};
  host.struct_size = sizeof(host);
  host.context = &framework;
  host.watch = [](void*, void* storage) {
    ++static_cast<Storage*>(storage)->watchers;
  };
  host.unwatch = [](void*, void* storage) {
    --static_cast<Storage*>(storage)->watchers;
  };
  host.is_live = [](void*, void* storage, void*) -> int32_t {
    return static_cast<Storage*>(storage)->live;
  };
  host.invalidate = [](void*, void* storage, const char*) {
    static_cast<Storage*>(storage)->live = false;
  };
  host.checkpoint = [](void*) -> void* { return new int(0); };
  host.free_checkpoint = [](void*, void* checkpoint) {
    delete static_cast<int*>(checkpoint);
  };
  host.restore = [](void*, void*, void* const*, int32_t) { return 0; };
  host.free_block = [](void*, const void*) { return 0; };
  host.tell_blocks = [](void* context, void (*tell)(void*, const void*),
                        void* blocks) {
    if (Of(context).result.live) tell(blocks, &Of(context).memory);
    for (const void* stray : Of(context).stray) tell(blocks, stray);
    return 0;
  };
  host.tell_origin = [](void* context, const void* const* blocks, int32_t count,
                        void (*tell)(void*, const char*), void* text) {
    EXPECT_EQ(std::vector<const void*>(blocks, blocks + count),
              Of(context).stray);
    tell(text, "by a library, ");
    tell(text, "line 3");
  };
  host.run_plainly = [](void* context, void*, void*) {
    return RunBody(context, "plain", nullptr, nullptr);
  };
  host.warm_up = [](void* context, void*, void*, KilnGraphTell tell,
                    void* outputs) {
    return RunBody(context, "warm-up", tell, outputs);
  };
  host.record = [](void* context, void*, void*, const KilnGraphUse*, int32_t,
                   KilnGraphTell tell, void* outputs) -> void* {
    return RunBody(context, "record", tell, outputs) == 0 ? context : nullptr;
  };
  host.free_recording = [](void* context, void*) {
    Of(context).log.push_back("free");
  };
  host.first_run = [](void*, void*, void*, const KilnGraphRule*, int32_t) {
    return 0;
  };
  host.replay = [](void* context, void*, void*, const KilnGraphRule*,
                   void** storages, int32_t) {
    Of(context).log.push_back("replay");
    Of(context).result.live = true;
    storages[0] = &Of(context).result;
    return 0;
  };
  host.cached = [](void*, void*, int32_t) -> void* { return nullptr; };
  host.drop_cached = [](void*, void*, int32_t) {};
  host.find_storages = [](void*, void*, KilnGraphInput*, int32_t) { return 0; };
  host.drop_input = [](void*, void*, int32_t) {};
  return host;
}

class GraphTree : public testing::Test {
 protected:
  GraphTree() {
    const KilnGraphHost host = HostOf(framework_);
    EXPECT_EQ(kiln_graph_tree_new(&host, "test", &tree_), nullptr);
  }
  ~GraphTree() override { kiln_graph_tree_free(tree_); }

  static KilnGraphFunction Function() {
    KilnGraphFunction function = {};
    function.struct_size = sizeof(function);
    function.rerecord_limit = -1;
    return function;
  }
  int32_t Add(const KilnGraphFunction& function) {
    int32_t number = -1;
    EXPECT_EQ(kiln_graph_tree_add(tree_, &function, &number), nullptr);
    return number;
  }
  // The first call of a step.
  KilnStatus* Run(int32_t function, int32_t inputs, int64_t thread = 0) {
    return Run(function, std::vector<KilnGraphInput>(inputs), thread);
  }
  KilnStatus* Run(int32_t function, std::vector<KilnGraphInput> given,
                  int64_t thread = 0) {
    KilnGraphCall call = {};
    call.struct_size = sizeof(call);
    call.function = function;
    call.inputs = given.data();
    call.count = static_cast<int32_t>(given.size());
    call.calls = ++calls_;
    call.thread = thread;
    return kiln_graph_tree_run(tree_, &call);
  }
  int Recordings() {
    int recordings = 0;
    kiln_graph_tree_nodes(
        tree_,
        [](void* count, const KilnGraphNode*) { ++*static_cast<int*>(count); },
        &recordings);
    return recordings;
  }
  // Takes the status.
  static void ExpectStatus(KilnStatus* status, int code,
                           const std::string& message) {
    ASSERT_NE(status, nullptr) << "expected: " << message;
    EXPECT_EQ(kiln_status_code(status), code);
    EXPECT_EQ(kiln_status_message(status), message);
    kiln_status_free(status);
  }

  Framework framework_;
  KilnGraphTree* tree_ = nullptr;
  int64_t calls_ = 0;
};

TEST_F(GraphTree, WarmsUpRecordsAndReplaysThroughTheHost) {
  const int32_t f = Add(Function());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Run(f, 1), nullptr);
  EXPECT_THAT(framework_.log,
              ElementsAre("warm-up", "record", "replay", "replay"));
  EXPECT_EQ(Recordings(), 1);
  KilnGraphReport report = {};
  report.struct_size = sizeof(report);
  EXPECT_EQ(kiln_graph_tree_report(tree_, &report), nullptr);
  EXPECT_EQ(report.state, KILN_GRAPH_EXECUTION);
  EXPECT_EQ(report.replays, 2);
  framework_.log.clear();
  kiln_graph_tree_shutdown(tree_);
  EXPECT_THAT(framework_.log, ElementsAre("free"));
  EXPECT_EQ(framework_.result.watchers, 0);
  ExpectStatus(Run(f, 1), kFailedPrecondition,
               "Running CUDAGraph after shutdown");
}

TEST_F(GraphTree, TheHostSaysWhereStrayBlocksComeFrom) {
  KilnGraphFunction function = Function();
  function.check_pool = 1;
  framework_.result.live = false;
  framework_.stray = {&framework_};
  ExpectStatus(Run(Add(function), 1), kInternal,
               "Detected 1 tensor(s) in the cudagraph pool not tracked as "
               "outputs. All live allocations must be tracked for "
               "correctness.\nby a library, line 3");
}

TEST_F(GraphTree, AShutdownWithinACallWaitsForItsEnd) {
  for (const char* how : {"warm-up", "record"}) {
    SCOPED_TRACE(how);
    Framework framework;
    const KilnGraphHost host = HostOf(framework);
    kiln_graph_tree_free(tree_);
    ASSERT_EQ(kiln_graph_tree_new(&host, "test", &tree_), nullptr);
    const int32_t f = Add(Function());
    const int32_t g = Add(Function());
    for (int i = 0; i < 2; ++i) ASSERT_EQ(Run(f, 1), nullptr);
    if (how == std::string("record")) {
      ASSERT_EQ(Run(g, 1), nullptr);
    }
    ASSERT_EQ(Run(f, 1), nullptr);
    int in_body = 0;
    framework.in_body = [&] {
      kiln_graph_tree_shutdown(tree_);
      in_body = Recordings();
    };
    EXPECT_EQ(Run(g, 1), nullptr);
    EXPECT_EQ(framework.log[framework.log.size() - (how[0] == 'w' ? 2 : 3)],
              how);
    EXPECT_EQ(in_body, 1);
    EXPECT_EQ(Recordings(), 0);
    EXPECT_EQ(framework.result.watchers, 0);
    ExpectStatus(Run(f, 1), kFailedPrecondition,
                 "Running CUDAGraph after shutdown");
    kiln_graph_tree_free(tree_);
    tree_ = nullptr;
  }
}

TEST_F(GraphTree, WhatTheHostFailsWithIsNamedAndTheNextCallWorks) {
  const int32_t f = Add(Function());
  framework_.fails = true;
  ExpectStatus(Run(f, 1), kInternal, "the framework's warm_up failed");
  framework_.fails = false;
  EXPECT_EQ(Run(f, 1), nullptr);
  framework_.fails = true;
  ExpectStatus(Run(f, 1), kInternal, "the framework's record failed");
  framework_.fails = false;
  EXPECT_EQ(Run(f, 1), nullptr);
  EXPECT_EQ(Recordings(), 1);
}

TEST_F(GraphTree, RecordingsOfAFunctionThatIsRemovedGoWithTheirPath) {
  const int32_t f = Add(Function());
  const int32_t g = Add(Function());
  for (const int32_t number : {f, f, g, g}) EXPECT_EQ(Run(number, 1), nullptr);
  EXPECT_EQ(Recordings(), 2);
  EXPECT_EQ(kiln_graph_tree_remove(tree_, f), nullptr);
  EXPECT_EQ(kiln_graph_tree_remove(tree_, g), nullptr);
  EXPECT_EQ(Recordings(), 2);  // a result is held
  framework_.result.live = false;
  const int32_t h = Add(Function());
  EXPECT_EQ(Run(h, 1), nullptr);
  EXPECT_EQ(Recordings(), 0);
  const std::string removed = "function: 0 was removed";
  ExpectStatus(Run(f, 1), kInvalidArgument, removed);
  ExpectStatus(kiln_graph_tree_remove(tree_, f), kInvalidArgument, removed);
  ExpectStatus(kiln_graph_tree_remove(tree_, 3), kInvalidArgument,
               "function: found 3, expected 0 to 2");
}

TEST_F(GraphTree, AStaticInputThatIsNotAlignedIsCopied) {
  const int32_t first = 0;
  KilnGraphFunction function = Function();
  function.static_inputs = &first;
  function.static_input_count = 1;
  function.static_alignment = 16;
  const auto copied_of = [&](const KilnGraphFunction& given) {
    const int32_t f = Add(given);
    KilnGraphReport before = {}, after = {};
    before.struct_size = after.struct_size = sizeof(before);
    EXPECT_EQ(kiln_graph_tree_report(tree_, &before), nullptr);
    const KilnGraphInput beside = {1, reinterpret_cast<void*>(24), nullptr,
                                   nullptr};
    for (int i = 0; i < 2; ++i) EXPECT_EQ(Run(f, {beside}), nullptr);
    EXPECT_EQ(kiln_graph_tree_report(tree_, &after), nullptr);
    return after.recorded_copied_inputs - before.recorded_copied_inputs;
  };
  EXPECT_EQ(copied_of(function), 1);
  // A caller who does not know of it.
  function.struct_size = offsetof(KilnGraphFunction, static_alignment);
  EXPECT_EQ(copied_of(function), 0);
}

TEST_F(GraphTree, WhatAThreadHoldsNoOtherThreadWritesOver) {
  const int32_t f = Add(Function());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Run(f, 1, 1), nullptr);
  EXPECT_EQ(Run(f, 1, 2), nullptr);
  EXPECT_THAT(framework_.log, ElementsAre("warm-up", "record", "plain"));
}

TEST_F(GraphTree, AFunctionThatNamesNoInputsIsRefused) {
  const int32_t below[] = {0, -1};
  KilnGraphFunction function = Function();
  int32_t number = -1;
  function.static_input_count = 2;
  ExpectStatus(kiln_graph_tree_add(tree_, &function, &number), kInvalidArgument,
               "static_inputs: found NULL, expected 2");
  function.static_inputs = below;
  ExpectStatus(kiln_graph_tree_add(tree_, &function, &number), kInvalidArgument,
               "static_inputs: found -1, expected 0 or more");
  function = Function();
  function.mutated_inputs = below;
  function.mutated_input_count = 2;
  ExpectStatus(kiln_graph_tree_add(tree_, &function, &number), kInvalidArgument,
               "mutated_inputs: found -1, expected 0 or more");
  function = Function();
  ExpectStatus(kiln_graph_tree_add(tree_, &function, nullptr), kInvalidArgument,
               "number: must not be NULL");
  EXPECT_EQ(number, -1);
}

TEST_F(GraphTree, ACallWithOtherInputsThanTheFunctionsIsRefused) {
  ExpectStatus(Run(0, 1), kInvalidArgument,
               "function: found 0, expected 0 to -1");
  const int32_t beyond = 7000000;
  KilnGraphFunction function = Function();
  function.mutated_inputs = &beyond;
  function.mutated_input_count = 1;
  const int32_t mutating = Add(function);
  ExpectStatus(Run(mutating, 1), kInvalidArgument,
               "number of inputs: found 1, expected 7000001 or more");
  function = Function();
  function.static_inputs = &beyond;
  function.static_input_count = 1;
  ExpectStatus(Run(Add(function), 1), kInvalidArgument,
               "number of inputs: found 1, expected 7000001 or more");
  EXPECT_TRUE(framework_.log.empty());

  const int32_t f = Add(Function());
  framework_.fails = true;
  ExpectStatus(Run(f, 5), kInternal, "the framework's warm_up failed");
  framework_.fails = false;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Run(f, 2), nullptr);
  for (const int32_t other : {1, 3}) {
    ExpectStatus(Run(f, other), kInvalidArgument,
                 "number of inputs: found " + std::to_string(other) +
                     ", expected 2 to 2");
  }
  EXPECT_EQ(Run(f, 2), nullptr);
  EXPECT_THAT(framework_.log,
              ElementsAre("warm-up", "warm-up", "record", "replay"));
}

}  // namespace
}  // namespace kiln

// Random numbers of work that is captured: each replay has those of its seed.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "client/c_api/kiln.h"
#include "client/c_api/kiln_graphs.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/graph.pb.h"
#include "tests/client/c_api/emulated_cuda.h"

namespace kiln {
namespace {

using testing::Each;
using testing::Le;

constexpr int kNumbers = 64;
using Numbers = std::vector<float>;

// x + 64 numbers from [0, 1).
constexpr char kGraph[] = R"(
  inputs { name: "x" tensor { dtype: DTYPE_FLOAT32 sizes { value: 64 }
    strides { value: 1 } device: DEVICE_TYPE_CUDA } }
  nodes { op: "prims.inductor_seed.default" args { device: DEVICE_TYPE_CUDA }
    results { dtype: DTYPE_INT64 device: DEVICE_TYPE_CUDA } }
  nodes { op: "prims.inductor_random.default"
    args { list { items { int_value: 64 } } } args { value: 1 }
    args { string_value: "rand" }
    results { dtype: DTYPE_FLOAT32 sizes { value: 64 } strides { value: 1 }
      device: DEVICE_TYPE_CUDA } }
  nodes { op: "aten.add.Tensor" args { value: 0 } args { value: 2 }
    results { dtype: DTYPE_FLOAT32 sizes { value: 64 } strides { value: 1 }
      device: DEVICE_TYPE_CUDA } }
  outputs { value: 3 })";

// Memory that nothing gets twice, for runs that are captured.
class Arena {
 public:
  KilnAllocator allocator() { return {this, &Allocate, &Release}; }

 private:
  static void* Allocate(void* context, int64_t bytes, void*) {
    Arena& arena = *static_cast<Arena*>(context);
    char* const memory = arena.bytes_.data() + arena.used_;
    arena.used_ += (bytes + 255) / 256 * 256;
    return arena.used_ <= static_cast<int64_t>(arena.bytes_.size()) ? memory
                                                                    : nullptr;
  }
  static void Release(void*, void*, int64_t, void*) {}

  alignas(256) std::array<char, 1 << 16> bytes_ = {};
  int64_t used_ = 0;
};

// A driver's function by its name.
template <typename Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(Driver(), name));
}

class SeedSlot : public testing::Test {
 protected:
  void Open(int32_t graphs) {
    session_ = OpenEmulated(KILN_CUDA, graphs);
    ASSERT_NE(session_, nullptr);
    wire::Graph message;
    ASSERT_TRUE(
        google::protobuf::TextFormat::ParseFromString(kGraph, &message));
    const std::string bytes = message.SerializeAsString();
    KilnGraph* graph = nullptr;
    Take(kiln_graph_parse(bytes.data(), bytes.size(), &graph));
    Take(kiln_compile(session_, graph, &callable_));
    kiln_graph_free(graph);
    ASSERT_NE(callable_, nullptr);
  }
  void Close() {
    kiln_callable_free(callable_);
    kiln_session_close(session_);
    callable_ = nullptr;
    session_ = nullptr;
  }
  ~SeedSlot() override { Close(); }

  KilnResults* RunWith(const KilnRunOptions& options) {
    static const int64_t size = kNumbers;
    static const int64_t stride = 1;
    KilnValue x = {};
    x.kind = KILN_TENSOR;
    x.dtype = KILN_FLOAT32;
    x.rank = 1;
    x.data = x_;
    x.sizes = &size;
    x.strides = &stride;
    KilnResults* results = nullptr;
    Take(kiln_run_with(callable_, &x, 1, &options, &results));
    return results;
  }
  static Numbers NumbersOf(const KilnResults* results) {
    const auto* const data =
        static_cast<const float*>(kiln_results_get(results, 0).data);
    return Numbers(data, data + kNumbers);
  }
  Numbers Run(uint64_t seed) {
    KilnRunOptions options = {};
    options.struct_size = sizeof(options);
    options.seed = seed;
    KilnResults* const results = RunWith(options);
    if (results == nullptr) return {};
    const Numbers numbers = NumbersOf(results);
    kiln_results_free(results);
    return numbers;
  }
  // By runs without graphs.
  std::vector<Numbers> Plainly(const std::vector<uint64_t>& seeds) {
    Open(0);
    std::vector<Numbers> all;
    for (const uint64_t seed : seeds) all.push_back(Run(seed));
    Close();
    EXPECT_NE(all[0], all[1]);
    EXPECT_THAT(all[0], Each(Le(1.0f)));
    return all;
  }

  alignas(256) float x_[kNumbers] = {};
  KilnSession* session_ = nullptr;
  KilnCallable* callable_ = nullptr;
};

// The third needs all 64 bits.
const std::vector<uint64_t> kSeeds = {11, 7, 0x8000000180000001u, 11, 0};

TEST_F(SeedSlot, ASessionsGraphDrawsFromEachRunsSeed) {
  const std::vector<Numbers> due = Plainly(kSeeds);
  ASSERT_NO_FATAL_FAILURE(Open(1));
  for (size_t i = 0; i < kSeeds.size(); ++i) {
    EXPECT_EQ(Run(kSeeds[i]), due[i]) << "run " << i;
  }
  KilnGraphReport report = {};
  report.struct_size = sizeof(report);
  Take(kiln_session_graph_report(session_, &report));
  EXPECT_EQ(report.recordings, 1);
  EXPECT_EQ(report.replays, static_cast<int64_t>(kSeeds.size()) - 2);
}

TEST_F(SeedSlot, ARunTakesItsSeedFromTheSlot) {
  const std::vector<Numbers> due = Plainly(kSeeds);
  ASSERT_NO_FATAL_FAILURE(Open(0));
  alignas(256) uint64_t slot = 0;
  KilnRunOptions options = {};
  options.struct_size = sizeof(options);
  options.seed = 12345;  // not looked at
  options.seed_slot = &slot;
  for (size_t i = 0; i < kSeeds.size(); ++i) {
    slot = kSeeds[i];
    KilnResults* const results = RunWith(options);
    ASSERT_NE(results, nullptr);
    EXPECT_EQ(NumbersOf(results), due[i]) << "run " << i;
    kiln_results_free(results);
  }
}

TEST_F(SeedSlot, ACaptureOfTheCallersReadsTheSlotAtEachReplay) {
  const std::vector<Numbers> due = Plainly(kSeeds);
  ASSERT_NO_FATAL_FAILURE(Open(0));
  Run(1);  // what a first run alone needs is there
  void* stream = nullptr;
  ASSERT_EQ(Find<int(void**, unsigned)>("cuStreamCreate")(&stream, 1), 0);
  ASSERT_EQ(Find<int(void*, int)>("cuStreamBeginCapture_v2")(stream, 1), 0);
  Arena arena;
  const KilnAllocator allocator = arena.allocator();
  alignas(256) uint64_t slot = 0;
  KilnRunOptions options = {};
  options.struct_size = sizeof(options);
  options.stream = stream;
  options.allocator = &allocator;
  options.seed_slot = &slot;
  KilnResults* const results = RunWith(options);
  void* graph = nullptr;
  ASSERT_EQ(Find<int(void*, void**)>("cuStreamEndCapture")(stream, &graph), 0);
  ASSERT_NE(results, nullptr);
  void* made = nullptr;
  ASSERT_EQ(Find<int(void**, void*, unsigned long long)>(
                "cuGraphInstantiateWithFlags")(&made, graph, 0),
            0);
  for (size_t i = 0; i < kSeeds.size(); ++i) {
    slot = kSeeds[i];
    ASSERT_EQ(Find<int(void*, void*)>("cuGraphLaunch")(made, stream), 0);
    EXPECT_EQ(NumbersOf(results), due[i]) << "replay " << i;
  }
  kiln_results_free(results);
  Find<int(void*)>("cuGraphExecDestroy")(made);
  Find<int(void*)>("cuGraphDestroy")(graph);
  Find<int(void*)>("cuStreamDestroy_v2")(stream);
}

}  // namespace
}  // namespace kiln

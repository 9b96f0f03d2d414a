#include "runtime/caching_allocator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using testing::HasSubstr;

// Memory of the host, as a driver has it: so much, of which so much is out.
class Driver final : public Allocator {
 public:
  explicit Driver(int64_t room = int64_t{1} << 40) : room_(room) {}

  absl::StatusOr<void*> Allocate(int64_t bytes, Stream) override {
    if (meanwhile) meanwhile();
    if (bytes > room_ - out_) {
      return absl::ResourceExhaustedError("the driver has no more");
    }
    out_ += bytes;
    ++calls_;
    return std::aligned_alloc(256, bytes);
  }
  void Free(void* memory, int64_t bytes, Stream) override {
    if (meanwhile) meanwhile();
    out_ -= bytes;
    std::free(memory);
  }
  int64_t out() const { return out_; }
  int calls() const { return calls_; }

  std::function<void()> meanwhile;  // in each call

 private:
  const int64_t room_;
  int64_t out_ = 0;
  int calls_ = 0;
};

char stream_a, stream_b;
constexpr int64_t kMiB = int64_t{1} << 20;

// The test hangs where it does not.
TEST(CachingAllocator, OthersGoOnWhileTheDriverIsAsked) {
  Driver driver;
  CachingAllocator allocator(driver);
  const PoolId pool = allocator.MakePool();
  void* of_pool = nullptr;
  {
    const PoolRouting routing(allocator, pool);
    of_pool = *allocator.Allocate(100, &stream_a);
  }
  void* const held = *allocator.Allocate(100, &stream_a);
  int asked = 0;
  driver.meanwhile = [&] {
    std::thread([&] {
      void* const more = *allocator.Allocate(200, &stream_a);  // is cached
      allocator.Free(more, 200, &stream_a);
    }).join();
    ++asked;
  };
  void* const large = *allocator.Allocate(30 * kMiB, &stream_a);
  EXPECT_EQ(asked, 1);
  allocator.Free(large, 30 * kMiB, &stream_a);
  EXPECT_EQ(allocator.ReleaseCached(), 30 * kMiB);
  EXPECT_EQ(asked, 2);
  allocator.RetirePool(pool);
  allocator.Free(of_pool, 100, &stream_a);  // the last of its pool
  EXPECT_EQ(asked, 3);
  driver.meanwhile = nullptr;
  EXPECT_EQ(allocator.figures().segment_bytes, 2 * kMiB);
  allocator.Free(held, 100, &stream_a);
}

TEST(CachingAllocator, WhatIsFreedServesTheNextRequestOfItsStream) {
  Driver driver;
  CachingAllocator allocator(driver);
  void* const first = *allocator.Allocate(3000, &stream_a);
  allocator.Free(first, 3000, &stream_a);
  void* const other = *allocator.Allocate(3000, &stream_b);
  EXPECT_NE(other, first);
  EXPECT_EQ(*allocator.Allocate(2800, &stream_a), first);
  EXPECT_EQ(driver.calls(), 2);
  EXPECT_EQ(allocator.figures().allocated_bytes, 2 * 3072);
  EXPECT_EQ(allocator.figures().segment_bytes, 4 * kMiB);
}

TEST(CachingAllocator, RequestsOfASizeShareSegments) {
  Driver driver;
  CachingAllocator allocator(driver);
  void* const small = *allocator.Allocate(1, &stream_a);
  EXPECT_EQ(*allocator.Allocate(512, &stream_a),
            static_cast<char*>(small) + 512);
  void* const middle = *allocator.Allocate(2 * kMiB, &stream_a);
  EXPECT_EQ(*allocator.Allocate(8 * kMiB, &stream_a),
            static_cast<char*>(middle) + 2 * kMiB);
  ASSERT_TRUE(allocator.Allocate(31 * kMiB, &stream_a).ok());
  EXPECT_EQ(driver.out(), (2 + 20 + 32) * kMiB);
}

TEST(CachingAllocator, NeighboursThatAreFreeBecomeOne) {
  Driver driver;
  CachingAllocator allocator(driver);
  std::vector<void*> pieces;
  for (int i = 0; i < 4; ++i) {
    pieces.push_back(*allocator.Allocate(512 * 1024, &stream_a));
  }
  EXPECT_EQ(driver.calls(), 1);
  for (const int i : {0, 2, 1}) allocator.Free(pieces[i], 512 * 1024, nullptr);
  EXPECT_EQ(*allocator.Allocate(kMiB, &stream_a), pieces[0]);
  EXPECT_EQ(driver.calls(), 1);
}

TEST(CachingAllocator, FreeingWhatIsNotAllocatedIsCountedAndDoesNothing) {
  Driver driver;
  CachingAllocator allocator(driver);
  char* const memory = static_cast<char*>(*allocator.Allocate(1024, nullptr));
  int elsewhere = 0;
  allocator.Free(&elsewhere, 4, nullptr);
  allocator.Free(memory + 512, 512, nullptr);
  allocator.Free(memory, 1024, nullptr);
  allocator.Free(memory, 1024, nullptr);
  EXPECT_EQ(allocator.figures().unknown_frees, 3);
  EXPECT_EQ(allocator.figures().allocated_bytes, 0);
}

TEST(CachingAllocator, OutOfMemoryComesAfterWhatIsCachedWasGivenBack) {
  Driver driver(40 * kMiB);
  CachingAllocator allocator(driver);
  void* const cached = *allocator.Allocate(30 * kMiB, &stream_a);
  allocator.Free(cached, 30 * kMiB, &stream_a);
  const auto other = allocator.Allocate(24 * kMiB, &stream_b);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(driver.out(), 24 * kMiB);
  const absl::Status none = allocator.Allocate(20 * kMiB, &stream_a).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(none.message(), HasSubstr("25165824 are allocated of 25165824"));
  EXPECT_THAT(none.message(), HasSubstr("the driver has no more"));
}

TEST(CachingAllocator, ALimitIsKeptAndNamed) {
  Driver driver;
  CachingAllocator allocator(driver, 5 * kMiB);
  void* const memory = *allocator.Allocate(100, &stream_a);
  ASSERT_TRUE(allocator.Allocate(100, &stream_b).ok());
  const absl::Status none =
      allocator.Allocate(kMiB / 2, reinterpret_cast<Stream>(3)).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(none.message(), HasSubstr("limit 5242880"));
  allocator.Free(memory, 100, &stream_a);
  EXPECT_TRUE(allocator.Allocate(kMiB / 2, reinterpret_cast<Stream>(3)).ok());
  EXPECT_EQ(allocator.figures().most_segment_bytes, 4 * kMiB);
}

TEST(CachingAllocator, AThreadIsRoutedIntoAPrivatePoolOnAnyStream) {
  Driver driver;
  CachingAllocator allocator(driver);
  CachingAllocator other(driver);
  const PoolId pool = allocator.MakePool();
  void* inside = nullptr;
  {
    const PoolRouting routing(allocator, pool);
    const PoolRouting elsewhere(other, other.MakePool());
    inside = *allocator.Allocate(600, &stream_a);
    ASSERT_TRUE(allocator.Allocate(600, &stream_b).ok());
    std::thread([&] {
      allocator.Allocate(600, &stream_a).IgnoreError();
    }).join();
  }
  EXPECT_EQ(allocator.State(pool).size(), 2);  // a segment a stream
  EXPECT_EQ(allocator.State(kSharedPool).size(), 1);
  allocator.Free(inside, 600, &stream_a);
  EXPECT_NE(*allocator.Allocate(600, &stream_a), inside);
}

TEST(CachingAllocator, APrivatePoolKeepsItsSegmentsUntilItIsRetired) {
  Driver driver;
  CachingAllocator allocator(driver);
  const PoolId pool = allocator.MakePool();
  void* first = nullptr;
  void* second = nullptr;
  {
    const PoolRouting routing(allocator, pool);
    first = *allocator.Allocate(100, &stream_a);
    second = *allocator.Allocate(100, &stream_b);
  }
  allocator.Free(first, 100, &stream_a);
  EXPECT_EQ(allocator.ReleaseCached(), 0);
  EXPECT_EQ(driver.out(), 4 * kMiB);
  allocator.RetirePool(pool);
  EXPECT_EQ(driver.out(), 2 * kMiB);
  allocator.Free(second, 100, &stream_b);
  EXPECT_EQ(driver.out(), 0);
  const PoolRouting routing(allocator, pool);
  EXPECT_EQ(allocator.Allocate(1, nullptr).status().code(),
            absl::StatusCode::kInternal);
}

TEST(CachingAllocator, APoolIsSetBackWithWhatWasFreedAndWithoutWhatCame) {
  Driver driver;
  CachingAllocator allocator(driver);
  const PoolId pool = allocator.MakePool();
  const PoolRouting routing(allocator, pool);
  void* const kept = *allocator.Allocate(1000, &stream_a);
  const PoolState state = allocator.State(pool);
  void* const later = *allocator.Allocate(1000, &stream_a);
  ASSERT_TRUE(allocator.Allocate(5 * kMiB, &stream_a).ok());
  allocator.Free(kept, 1000, &stream_a);
  ASSERT_TRUE(allocator.SetState(pool, state).ok());
  EXPECT_EQ(allocator.figures().allocated_bytes, 1024);
  EXPECT_EQ(*allocator.Allocate(1000, &stream_a), later);
  allocator.Free(kept, 1000, &stream_a);
  EXPECT_EQ(allocator.figures().unknown_frees, 0);
  EXPECT_EQ(allocator.SetState(kSharedPool, state).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CachingAllocator, ACheckpointWhoseSegmentsAreGoneIsRefused) {
  Driver driver;
  CachingAllocator allocator(driver);
  const PoolId pool = allocator.MakePool();
  PoolState state;
  {
    const PoolRouting routing(allocator, allocator.MakePool());
    ASSERT_TRUE(allocator.Allocate(1000, &stream_a).ok());
    state = allocator.State(PoolRouting::Of(allocator));
  }
  EXPECT_EQ(allocator.SetState(pool, state).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CachingAllocator, TellsPeopleWhoHoldsWhat) {
  Driver driver;
  CachingAllocator allocator(driver);
  {
    const MemoryHolder plan("gpt2");
    const MemoryHolder step("gpt2: kiln_poi_fused_add_0");
    ASSERT_TRUE(allocator.Allocate(700, nullptr).ok());
  }
  const std::string text = allocator.ToText();
  EXPECT_THAT(text, HasSubstr("pool 0: 1024 of 2097152 bytes allocated\n"));
  EXPECT_THAT(text,
              HasSubstr("    0: 1024 allocated, gpt2: kiln_poi_fused_add_0\n"
                        "    1024: 2096128 free\n"));
}

// Against a model that knows of each pool only which intervals are out.
class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed)
      : random_(seed), limit_(200 * kMiB), allocator_(driver_, limit_) {
    for (int i = 0; i < 3; ++i) pools_.push_back({});
    for (int i = 1; i < 3; ++i) pools_[i].id = allocator_.MakePool();
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      Pool& pool = pools_[Below(3)];
      const int what = Below(20);
      if (what < 11) {
        Allocate(pool);
      } else if (what < 17) {
        FreeOne(pool);
      } else if (what < 18) {
        allocator_.ReleaseCached();
      } else if (pool.id != kSharedPool) {
        what == 18 ? Remember(pool) : GoBack(pool);
      }
      Check();
    }
  }

 private:
  struct Piece {
    int64_t bytes;
    Stream stream;
    unsigned char mark;
  };
  using Pieces = std::map<char*, Piece>;
  struct Pool {
    PoolId id = kSharedPool;
    Pieces pieces;
    PoolState state;
    Pieces then;  // at `state`
  };

  int Below(int limit) { return static_cast<int>(random_() % limit); }

  int64_t SomeBytes() {
    switch (Below(4)) {
      case 0:
        return 1 + Below(2000);
      case 1:
        return 1 + Below(kMiB);
      case 2:
        return 1 + Below(9 * kMiB);
      default:
        return 1 + Below(30 * kMiB);
    }
  }

  void Allocate(Pool& pool) {
    const PoolRouting routing(allocator_, pool.id);
    const int64_t bytes = SomeBytes();
    Stream const stream = Below(2) == 0 ? &stream_a : &stream_b;
    const auto memory = allocator_.Allocate(bytes, stream);
    if (!memory.ok()) {
      EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_GT(driver_.out() + BlockPool::SegmentBytes(bytes), limit_);
      return;
    }
    const auto mark = static_cast<unsigned char>(random_());
    std::memset(*memory, mark, std::min<int64_t>(bytes, 4096));
    pool.pieces[static_cast<char*>(*memory)] = {bytes, stream, mark};
  }

  void FreeOne(Pool& pool) {
    if (pool.pieces.empty()) return;
    const auto at = std::next(pool.pieces.begin(),
                              Below(static_cast<int>(pool.pieces.size())));
    CheckMark(*at);
    allocator_.Free(at->first, at->second.bytes, at->second.stream);
    pool.pieces.erase(at);
  }

  void Remember(Pool& pool) {
    pool.state = allocator_.State(pool.id);
    pool.then = pool.pieces;
  }

  void GoBack(Pool& pool) {
    ASSERT_TRUE(allocator_.SetState(pool.id, pool.state).ok());
    pool.pieces = pool.then;
    // The graph writes what is there again.
    for (const auto& [at, piece] : pool.pieces) {
      std::memset(at, piece.mark, std::min<int64_t>(piece.bytes, 4096));
    }
  }

  void CheckMark(const std::pair<char* const, Piece>& piece) {
    const auto* const bytes = reinterpret_cast<unsigned char*>(piece.first);
    EXPECT_EQ(bytes[0], piece.second.mark);
    EXPECT_EQ(bytes[std::min<int64_t>(piece.second.bytes, 4096) - 1],
              piece.second.mark);
  }

  void Check() {
    std::map<char*, int64_t> out;  // of all pools
    int64_t bytes = 0;
    for (const Pool& pool : pools_) {
      for (const auto& [at, piece] : pool.pieces) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % 64, 0);
        out[at] = piece.bytes;
        bytes += piece.bytes;
      }
    }
    const char* end = nullptr;
    for (const auto& [at, size] : out) {
      EXPECT_GE(at, end) << "two pieces share memory";
      end = at + size;
    }
    CheckBooks();
    const MemoryFigures figures = allocator_.figures();
    EXPECT_GE(figures.allocated_bytes, bytes);
    EXPECT_EQ(figures.segment_bytes, driver_.out());
    EXPECT_LE(driver_.out(), limit_);
    EXPECT_EQ(figures.unknown_frees, 0);
  }

  // The allocated blocks are the model's pieces, on their streams, and the
  // blocks of a segment are all of it, no two free ones side by side.
  void CheckBooks() {
    for (const Pool& pool : pools_) {
      std::set<char*> found;
      for (const PoolSegment& segment : allocator_.State(pool.id)) {
        int64_t next = 0;
        bool free_before = false;
        for (const auto& [offset, block] : segment.blocks) {
          EXPECT_EQ(offset, next);
          next += block.bytes;
          EXPECT_FALSE(free_before && !block.allocated);
          free_before = !block.allocated;
          if (!block.allocated) continue;
          const auto piece = pool.pieces.find(segment.base + offset);
          ASSERT_NE(piece, pool.pieces.end());
          EXPECT_EQ(piece->second.stream, segment.stream);
          EXPECT_GE(block.bytes, piece->second.bytes);
          found.insert(piece->first);
        }
        EXPECT_EQ(next, segment.bytes);
      }
      EXPECT_EQ(found.size(), pool.pieces.size());
    }
  }

  std::mt19937 random_;
  Driver driver_;
  const int64_t limit_;
  CachingAllocator allocator_;
  std::vector<Pool> pools_;
};

TEST(CachingAllocator, RandomProgramsAgreeWithAModel) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram(seed).Run(150);
    if (HasFailure()) return;
  }
}

TEST(CachingAllocator, AllIsGivenBackInTheEndAndThreadsShareIt) {
  Driver driver;
  {
    CachingAllocator allocator(driver);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&allocator, t] {
        const PoolRouting routing(
            allocator, t % 2 == 0 ? kSharedPool : allocator.MakePool());
        for (int i = 1; i < 300; ++i) {
          const auto memory = allocator.Allocate(i * 50, nullptr);
          ASSERT_TRUE(memory.ok());
          std::memset(*memory, t, i * 50);
          if (i % 3 != 0) allocator.Free(*memory, i * 50, nullptr);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(driver.out(), 0);
  }
  EXPECT_EQ(driver.out(), 0);
}

}  // namespace
}  // namespace kiln

#include "runtime/thread_pool.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace kiln {
namespace {

// Counts how often each number is visited, and the pieces below the grain.
struct Visits {
  explicit Visits(int64_t count, int64_t grain)
      : count(count), grain(grain), times(count) {}
  int64_t count;
  int64_t grain;
  std::vector<std::atomic<int>> times;
  std::atomic<int> short_pieces{0};

  static void Body(void* context, int64_t begin, int64_t end) {
    Visits& visits = *static_cast<Visits*>(context);
    if (end - begin < visits.grain && end != visits.count) {
      ++visits.short_pieces;
    }
    for (int64_t i = begin; i < end; ++i) ++visits.times[i];
  }
  bool EachOnce() const {
    for (const std::atomic<int>& t : times) {
      if (t.load() != 1) return false;
    }
    return true;
  }
};

// OpenMP's, as a program that is linked with it has it.
ThreadPool::Team TeamOfOpenMp() {
  static void* const library = dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL);
  return library == nullptr ? nullptr : ThreadPool::ProgramsTeam();
}

// How often it was asked to work.
std::atomic<int> team_calls{0};
void CountedTeam(void (*body)(void*), void* context, unsigned threads,
                 unsigned flags) {
  ++team_calls;
  TeamOfOpenMp()(body, context, threads, flags);
}

// On threads of the pool's own, and on OpenMP's.
class ThreadPools : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { ASSERT_NE(TeamOfOpenMp(), nullptr); }
  ThreadPool::Team team() const { return GetParam() ? CountedTeam : nullptr; }
};
INSTANTIATE_TEST_SUITE_P(Own, ThreadPools, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(OpenMp, ThreadPools, testing::Values(true));

TEST_P(ThreadPools, VisitsEveryNumberOnceInPiecesOfTheGrain) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads, team());
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t count : {0, 1, 7, 64, 1000}) {
      for (const int64_t grain : {1, 3, 100, 5000}) {
        Visits visits(count, grain);
        pool.ParallelFor(count, grain, Visits::Body, &visits);
        EXPECT_TRUE(visits.EachOnce()) << count << " by " << grain;
        EXPECT_EQ(visits.short_pieces.load(), 0);
      }
    }
  }
}

TEST_P(ThreadPools, AllThreadsTakePart) {
  struct Meeting {
    static void Body(void* context, int64_t, int64_t) {
      auto& come = *static_cast<std::atomic<int>*>(context);
      ++come;
      while (come.load() < 3) std::this_thread::yield();
    }
  };
  ThreadPool pool(3, team());
  const int before = team_calls.load();
  for (int i = 0; i < 10; ++i) {
    std::atomic<int> come{0};
    pool.ParallelFor(3, 1, Meeting::Body, &come);
    EXPECT_EQ(come.load(), 3);
  }
  EXPECT_EQ(team_calls.load() - before, GetParam() ? 10 : 0);
}

TEST_P(ThreadPools, AForkedProcessRunsItsLoopsAlone) {
  ThreadPool pool(2, team());
  Visits first(100, 1);
  pool.ParallelFor(first.count, first.grain, Visits::Body, &first);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    Visits visits(100, 1);
    pool.ParallelFor(visits.count, visits.grain, Visits::Body, &visits);
    _exit(visits.EachOnce() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_P(ThreadPools, CallersAtOnceEachGetTheirWholeLoop) {
  ThreadPool pool(3, team());
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        Visits visits(100 + i, 1);
        pool.ParallelFor(visits.count, 1, Visits::Body, &visits);
        if (!visits.EachOnce()) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(ThreadPools, ALoopInsideALoopRunsOnItsOwnThread) {
  struct Nested {
    ThreadPool pool;
    std::atomic<int> visited{0};
  } nested{ThreadPool(2, team())};
  nested.pool.ParallelFor(
      10, 1,
      [](void* context, int64_t begin, int64_t end) {
        Nested& outer = *static_cast<Nested*>(context);
        for (int64_t i = begin; i < end; ++i) {
          outer.pool.ParallelFor(
              5, 1,
              [](void* inner, int64_t b, int64_t e) {
                static_cast<Nested*>(inner)->visited += static_cast<int>(e - b);
              },
              &outer);
        }
      },
      &nested);
  EXPECT_EQ(nested.visited.load(), 50);
}

// A child with a limit of processes of its own, whose end is looked at.
TEST(ThreadPoolDeathTest, WhereTheMachineGivesNoMoreThreadsThereAreFewer) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        // Stacks that do not fit: pthread_create says EAGAIN, root or not.
        rlimit limit = {};
        getrlimit(RLIMIT_AS, &limit);
        limit.rlim_cur = rlim_t{1} << 30;
        setrlimit(RLIMIT_AS, &limit);
        ThreadPool pool(ThreadPool::kMaxThreads);
        Visits visits(1000, 1);
        pool.ParallelFor(visits.count, visits.grain, Visits::Body, &visits);
        const bool fewer = pool.threads() < ThreadPool::kMaxThreads;
        _exit(fewer && visits.EachOnce() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "thread_pool.short");
}

TEST(ThreadPool, NoMoreThreadsThanItsBoundAreStarted) {
  ThreadPool pool(100000);
  EXPECT_LE(pool.threads(), ThreadPool::kMaxThreads);
}

}  // namespace
}  // namespace kiln

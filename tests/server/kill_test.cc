// kilnd killed (SIGKILL) at random moments under mixed load, again and again: each
// time it serves what it had acknowledged, and nothing that it had not.
//
//   kill_test [FIRST_SEED [KILLS]]
//
// Prints the longest start and the number of acknowledged entries that were read
// back.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "tests/support/health_client.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

uint64_t first_seed = 1;
int kills = 100;
constexpr int kClients = 4;
constexpr int kMostAnswers = 40;  // of one life

std::string Runfile(const std::string& path) {
  return absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/", path);
}

class KilledDaemon {
 public:
  std::string socket() const { return folder_.path() + "/sock"; }

  // Until it is SERVING; how long that took.
  absl::Duration Start() {
    std::vector<std::string> words = {Runfile("server/kilnd"),
                                      "--socket",
                                      socket(),
                                      "--data-folder",
                                      folder_.path() + "/data",
                                      "--worker",
                                      Runfile("tests/support/fake_worker"),
                                      "--workers",
                                      "2",
                                      "--log-level",
                                      "error"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const SteadyTime begun = SteadyNow();
    EXPECT_EQ(
        posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ), 0);
    while (AskHealth("unix:" + socket()) != "SERVING") {
    }
    return Since(begun);
  }
  void Kill() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  const ShortFolder folder_;
  pid_t pid_ = 0;
};

// What was acknowledged: the artifact of each salt.
class Acknowledged {
 public:
  void Add(int salt, const std::string& artifact) {
    MutexLock lock(&mu_);
    const auto [known, added] = artifacts_.emplace(salt, artifact);
    // The same key never had another artifact.
    if (!added) {
      EXPECT_TRUE(known->second == artifact) << salt;
    }
  }
  std::map<int, std::string> All() const {
    MutexLock lock(&mu_);
    return artifacts_;
  }

 private:
  mutable Mutex mu_;
  std::map<int, std::string> artifacts_ ABSL_GUARDED_BY(mu_);
};

wire::CompileRequest RequestOf(int salt) {
  return FakeRequest({absl::StrCat("fake.salt.", salt)});
}

// One life: clients compile what is new and what is known, until enough answers have
// come; then the daemon is killed, whatever is under way.
void LiveAndDie(KilledDaemon& daemon, std::mt19937_64& random, int& next_salt,
                Acknowledged& acknowledged) {
  const int most = 1 + static_cast<int>(random() % kMostAnswers);
  std::atomic<int> answers{0}, salt{next_salt};
  std::atomic<bool> dead{false};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, seed = random()] {
      std::mt19937_64 choose(seed);
      TestClient client(daemon.socket());
      while (!dead) {
        // Every third is one that was asked for before.
        const int known = salt;
        const int chosen = choose() % 3 == 0 && known > 0
                               ? static_cast<int>(choose() % known)
                               : salt++;
        const CompileAnswer answer = client.Compile(RequestOf(chosen));
        if (!answer.status.ok()) continue;
        acknowledged.Add(chosen, answer.result.artifact().artifact());
        ++answers;
      }
    });
  }
  while (answers < most) std::this_thread::yield();
  daemon.Kill();
  dead = true;
  for (std::thread& client : clients) client.join();
  next_salt = salt;
}

TEST(KillNine, LosesNothingAcknowledgedAndServesNothingBroken) {
  KilledDaemon daemon;
  Acknowledged acknowledged;
  std::mt19937_64 random(first_seed);
  int next_salt = 0;
  int64_t read_back = 0;
  absl::Duration longest;
  for (int life = 0; life < kills; ++life) {
    longest = std::max(longest, daemon.Start());
    TestClient client(daemon.socket());
    for (const auto& [salt, artifact] : acknowledged.All()) {
      // Those of the last lives all, of others some.
      if (salt < next_salt - 200 && random() % 50 != 0) continue;
      const auto found = client.Lookup(LookupFor(RequestOf(salt)));
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(found->outcome(), wire::LookupReply::OUTCOME_HIT)
          << "life " << life << ", entry " << salt;
      ASSERT_TRUE(found->artifact().artifact() == artifact) << salt;
      ++read_back;
    }
    LiveAndDie(daemon, random, next_salt, acknowledged);
  }
  std::cout << kills << " kills, " << acknowledged.All().size()
            << " acknowledged entries, " << read_back
            << " reads of them, longest start " << absl::FormatDuration(longest)
            << "\n";
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) kiln::first_seed = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) kiln::kills = std::atoi(argv[2]);
  return RUN_ALL_TESTS();
}

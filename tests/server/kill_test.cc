// kilnd killed (SIGKILL) at random moments of its life, again and again: while it
// starts, under mixed load, and at rest after load. Each time it serves what it had
// acknowledged, and nothing that it had not. The load: graphs that are new, graphs
// that are known, units that graphs share, tuning, and all of it written to a Redis
// behind the daemon.
//
//   kill_test [FIRST_SEED [KILLS]]
//
// The seed decides the moments, as times, and what clients ask; what is under way at
// a moment is up to the machine. Prints the seed and each moment, then how much of
// what was acknowledged was read back, and how long starts took beside their bar:
// a figure, of a machine that does nothing else, and no test's to assert.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/health_client.h"
#include "tests/support/redis_server.h"
#include "tests/support/sanitized.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

uint64_t first_seed = 1;
// A sanitizer makes each start several times as long.
int kills = kSanitized ? 25 : 100;
constexpr int kClients = 4;
constexpr int kMostAnswers = 40;  // before a rest
constexpr absl::Duration kLongestLoad = absl::Milliseconds(200);
constexpr absl::Duration kLongestRest = absl::Milliseconds(100);
constexpr int kSharing = 4;      // graphs that have the same units
constexpr int kUnits = 2;        // of each graph
constexpr size_t kRowsRead = 5;  // tuned ones, after each life but the last
constexpr absl::Duration kStartBar = absl::Seconds(2);
// By far more than a start takes: a daemon that does not serve then never will.
constexpr absl::Duration kStartHangs = absl::Minutes(4);

std::string Runfile(const std::string& path) {
  return absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/", path);
}

class KilledDaemon {
 public:
  KilledDaemon() {
    std::ofstream(folder_.path() + "/kilnd.toml")
        << "[far]\naddresses = [\"" << redis_.address()
        << "\"]\nlease_wait = \"100ms\"\n";
  }

  const RedisServer& redis() const { return redis_; }
  std::string socket() const { return folder_.path() + "/sock"; }

  // As on a machine that never had one.
  void ForgetData() { std::filesystem::remove_all(folder_.path() + "/data"); }

  void Spawn() {
    std::vector<std::string> words = {Runfile("server/kilnd"),
                                      "--config",
                                      folder_.path() + "/kilnd.toml",
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
    begun_ = SteadyNow();
    if (posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ) !=
        0) {
      pid_ = 0;
    }
  }
  // How long after Spawn it was SERVING. Fails when it ends instead, or hangs.
  absl::Duration AwaitServing() {
    for (;;) {
      const std::string said = AskHealth("unix:" + socket());
      const absl::Duration start = Since(begun_);
      if (said == "SERVING") {
        starts_.push_back(start);
        return start;
      }
      if (HasEnded()) {
        ADD_FAILURE() << "kilnd ended, or there is none";
        return start;
      }
      if (start > kStartHangs) {
        ADD_FAILURE() << "kilnd does not serve " << absl::FormatDuration(start)
                      << " after its start; its health is: " << said;
        return start;
      }
    }
  }
  // Of all starts that were waited for.
  void TellStarts() {
    if (starts_.empty()) return;
    std::sort(starts_.begin(), starts_.end());
    const auto over =
        starts_.end() -
        std::upper_bound(starts_.begin(), starts_.end(), kStartBar);
    std::cout << "exec to SERVING: " << starts_.size() << " starts, median "
              << InMilliseconds(starts_[starts_.size() / 2]) << ", longest "
              << InMilliseconds(starts_.back()) << "; bar "
              << absl::FormatDuration(kStartBar) << ": ";
    if (over == 0) {
      std::cout << "kept\n";
    } else {
      std::cout << "NOT kept, " << over << " over it\n";
    }
  }
  // Without having been killed.
  bool HasEnded() {
    if (pid_ != 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
    return pid_ == 0;
  }
  void Kill() {
    if (HasEnded()) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  static std::string InMilliseconds(absl::Duration time) {
    return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1)));
  }

  const ShortFolder folder_;
  RedisServer redis_;
  SteadyTime begun_;
  std::vector<absl::Duration> starts_;
  pid_t pid_ = 0;  // 0: none lives
};

// What was acknowledged: the artifact of each salt, and which rows were tuned.
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
  void AddTuned(int row) {
    MutexLock lock(&mu_);
    tuned_.insert(row);
  }
  std::map<int, std::string> All() const {
    MutexLock lock(&mu_);
    return artifacts_;
  }
  std::set<int> Tuned() const {
    MutexLock lock(&mu_);
    return tuned_;
  }

 private:
  mutable Mutex mu_;
  std::map<int, std::string> artifacts_ ABSL_GUARDED_BY(mu_);
  std::set<int> tuned_ ABSL_GUARDED_BY(mu_);
};

// A graph of this name with the units that the graphs around `salt` have.
wire::CompileRequest GraphNamed(const std::string& name, int salt) {
  return FakeRequest({absl::StrCat("fake.salt.", name),
                      absl::StrCat("fake.units.", kUnits),
                      absl::StrCat("fake.shared.", salt / kSharing)});
}

wire::CompileRequest RequestOf(int salt) {
  return GraphNamed(absl::StrCat(salt), salt);
}

// One with a kernel that this row of the tuning table is for.
wire::CompileRequest RequestOfRow(int row, const std::string& name) {
  return FakeRequest(
      {absl::StrCat("fake.row.row", row), absl::StrCat("fake.salt.", name)});
}

bool Tune(TestClient& client, int row) {
  grpc::ClientContext context;
  wire::TuneRequest tune;
  *tune.mutable_compile() = RequestOfRow(row, "tuned");
  wire::TuneReply reply;
  return AdminStub(client)->Tune(&context, tune, &reply).ok() &&
         reply.kernels_size() == 1;
}

// The row's decision is there: a graph that no life asked for is compiled with it.
void ExpectTuned(TestClient& client, int row, const std::string& probe) {
  const CompileAnswer answer = client.Compile(RequestOfRow(row, probe));
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  wire::Artifact artifact;
  EXPECT_TRUE(artifact.ParseFromString(answer.result.artifact().artifact()));
  EXPECT_EQ(artifact.compiled().tuned_size(), 1) << probe << ", row " << row;
  if (artifact.compiled().tuned_size() == 1) {
    EXPECT_EQ(artifact.compiled().tuned(0),
              absl::StrCat("row", row, " rows=4"));
  }
}

void ExpectHit(TestClient& client, int salt, const std::string& artifact) {
  const auto found = client.Lookup(LookupFor(RequestOf(salt)));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->outcome(), wire::LookupReply::OUTCOME_HIT)
      << "entry " << salt;
  EXPECT_TRUE(found->artifact().artifact() == artifact) << salt;
}

int64_t FarHits(TestClient& client) {
  grpc::ClientContext context;
  wire::StatsReply stats;
  EXPECT_TRUE(AdminStub(client)->Stats(&context, {}, &stats).ok());
  for (const wire::Counter& counter : stats.counters())
    if (counter.name() == "far.hits") return counter.value();
  ADD_FAILURE() << "there is no far.hits";
  return -1;
}

// What was acknowledged is there after the life before, and near: entries, the units
// in them, tuning. Entries of the last lives all, and of the others and of tuned rows some,
// unless `all`. How many reads that took.
int64_t ExpectThere(TestClient& client, int life, int next_salt,
                    const Acknowledged& acknowledged, std::mt19937_64& random,
                    bool all = false) {
  SCOPED_TRACE(absl::StrCat("life ", life));
  const std::string probe = absl::StrCat("probe", life);
  int64_t reads = 0;
  int last = -1;
  for (const auto& [salt, artifact] : acknowledged.All()) {
    if (!all && salt < next_salt - 200 && random() % 50 != 0) continue;
    ExpectHit(client, salt, artifact);
    if (testing::Test::HasFailure()) return reads;
    last = salt;
    ++reads;
  }
  if (last >= 0) {
    const CompileAnswer answer = client.Compile(GraphNamed(probe, last));
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.result.units_built(), 0u);
    EXPECT_EQ(answer.result.units_cached(), static_cast<uint32_t>(kUnits));
    ++reads;
  }
  const std::set<int> tuned = acknowledged.Tuned();
  std::vector<int> rows(tuned.begin(), tuned.end());
  std::shuffle(rows.begin(), rows.end(), random);
  if (!all && rows.size() > kRowsRead) rows.resize(kRowsRead);
  for (const int row : rows) ExpectTuned(client, row, probe);
  EXPECT_EQ(FarHits(client), 0);
  return reads + static_cast<int64_t>(rows.size());
}

// What reached the Redis is whole: another daemon is given what was acknowledged, or
// nothing. How much it is given.
int64_t ReadFromAfar(const KilledDaemon& daemon, const std::string& key,
                     const Acknowledged& acknowledged) {
  TestDaemon other([&](Config& config) {
    config.far_addresses = {daemon.redis().address()};
    config.far_budget = absl::Milliseconds(200);
    config.trusted_keys = {key};
  });
  int64_t hits = 0;
  for (const auto& [salt, artifact] : acknowledged.All()) {
    const auto found = other.client().Lookup(LookupFor(RequestOf(salt)));
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || found->outcome() != wire::LookupReply::OUTCOME_HIT)
      continue;
    EXPECT_TRUE(found->artifact().artifact() == artifact) << salt;
    ++hits;
  }
  EXPECT_EQ(StatOf(other, "far.refused"), 0);
  return hits;
}

std::string KeyOf(TestClient& client) {
  grpc::ClientContext context;
  wire::DescribeReply reply;
  EXPECT_TRUE(CompileStub(client)->Describe(&context, {}, &reply).ok());
  return absl::BytesToHexString(reply.public_key());
}

// Uniform in [0, most).
absl::Duration Within(absl::Duration most, std::mt19937_64& random) {
  return most * std::uniform_real_distribution<double>(0, 1)(random);
}

// Clients that compile what is new and what is known, until they are told to stop.
class Load {
 public:
  Load(const std::string& socket, std::mt19937_64& random, int next_salt,
       Acknowledged& acknowledged)
      : salt_(next_salt), acknowledged_(acknowledged) {
    for (int c = 0; c < kClients; ++c)
      clients_.emplace_back(
          [this, socket, seed = random()] { Ask(socket, seed); });
  }
  int answers() const { return answers_; }
  // Waits for the calls under way. The first salt that nobody asked for.
  int Stop() {
    stopped_ = true;
    for (std::thread& client : clients_) client.join();
    return salt_;
  }

 private:
  void Ask(const std::string& socket, uint64_t seed) {
    std::mt19937_64 choose(seed);
    TestClient client(socket);
    while (!stopped_) {
      const int known = salt_;
      if (choose() % 10 == 0) {
        const int row = static_cast<int>(choose() % 1000);
        if (!Tune(client, row)) continue;
        acknowledged_.AddTuned(row);
        ++answers_;
        continue;
      }
      // Every third is one that was asked for before.
      const int chosen = choose() % 3 == 0 && known > 0
                             ? static_cast<int>(choose() % known)
                             : salt_++;
      const CompileAnswer answer = client.Compile(RequestOf(chosen));
      if (!answer.status.ok()) continue;
      acknowledged_.Add(chosen, answer.result.artifact().artifact());
      ++answers_;
    }
  }

  std::atomic<int> answers_{0}, salt_;
  std::atomic<bool> stopped_{false};
  Acknowledged& acknowledged_;
  std::vector<std::thread> clients_;
};

enum class Phase { kStart, kLoad, kRest };

// Half of the lives end under load. The first gives the others something to lose.
Phase PhaseOf(int life, std::mt19937_64& random) {
  constexpr Phase kPhases[] = {Phase::kStart, Phase::kLoad, Phase::kLoad,
                               Phase::kRest};
  const Phase drawn = kPhases[random() % std::size(kPhases)];
  return life == 0 ? Phase::kRest : drawn;
}

void Tell(int life, absl::string_view phase, absl::Duration after,
          int answers) {
  std::cout << "life " << life << ": killed " << phase << ", after "
            << absl::FormatDuration(absl::Trunc(after, absl::Microseconds(1)))
            << ", " << answers << " answers\n";
}

// Kills a daemon that was spawned, at a moment of its start or just behind it.
void DieStarting(KilledDaemon& daemon, int life, absl::Duration usual_start,
                 std::mt19937_64& random) {
  const absl::Duration after = Within(1.2 * usual_start, random);
  absl::SleepFor(after);
  EXPECT_FALSE(daemon.HasEnded());
  daemon.Kill();
  Tell(life, "while it started", after, 0);
}

// One life of a daemon that serves: load, and perhaps a rest, until it is killed.
// Gives the next salt.
int LiveAndDie(KilledDaemon& daemon, int life, Phase phase, int next_salt,
               std::mt19937_64& moments, std::mt19937_64& random,
               Acknowledged& acknowledged) {
  const int most = 1 + static_cast<int>(moments() % kMostAnswers);
  Load load(daemon.socket(), random, next_salt, acknowledged);
  if (phase == Phase::kLoad) {
    const absl::Duration after = Within(kLongestLoad, moments);
    absl::SleepFor(after);
    EXPECT_FALSE(daemon.HasEnded());
    daemon.Kill();
    next_salt = load.Stop();
    Tell(life, "under load", after, load.answers());
    return next_salt;
  }
  while (load.answers() < most && !daemon.HasEnded()) std::this_thread::yield();
  next_salt = load.Stop();
  const absl::Duration after = Within(kLongestRest, moments);
  absl::SleepFor(after);
  EXPECT_FALSE(daemon.HasEnded());
  daemon.Kill();
  Tell(life, "at rest", after, load.answers());
  return next_salt;
}

TEST(KillNine, LosesNothingAcknowledgedAndServesNothingBroken) {
  std::cout << "seed " << first_seed << "\n";
  KilledDaemon daemon;
  Acknowledged acknowledged;
  // The moments do not depend on how many answers there were.
  std::mt19937_64 moments(first_seed), random(first_seed);
  int next_salt = 0;
  int64_t read_back = 0;
  std::map<Phase, int> phases;
  std::string key;
  absl::Duration usual;
  for (int life = 0; life < kills; ++life) {
    const Phase phase = PhaseOf(life, moments);
    ++phases[phase];
    daemon.Spawn();
    if (phase == Phase::kStart) {
      DieStarting(daemon, life, usual, moments);
      if (HasFailure()) return daemon.Kill();
      continue;
    }
    usual = daemon.AwaitServing();
    if (HasFailure()) return daemon.Kill();
    TestClient client(daemon.socket());
    key = KeyOf(client);
    read_back += ExpectThere(client, life, next_salt, acknowledged, random);
    if (HasFailure()) return daemon.Kill();
    next_salt = LiveAndDie(daemon, life, phase, next_salt, moments, random,
                           acknowledged);
  }
  daemon.Spawn();
  daemon.AwaitServing();
  if (HasFailure()) return daemon.Kill();
  TestClient client(daemon.socket());
  read_back += ExpectThere(client, kills, next_salt, acknowledged, random,
                           /*all=*/true);
  daemon.Kill();
  const int64_t far = ReadFromAfar(daemon, key, acknowledged);
  EXPECT_GT(far, 0);
  std::cout << kills << " kills (" << phases[Phase::kStart] << " starting, "
            << phases[Phase::kLoad] << " under load, " << phases[Phase::kRest]
            << " at rest), " << acknowledged.All().size()
            << " acknowledged entries, " << read_back << " reads, "
            << acknowledged.Tuned().size() << " rows tuned, " << far
            << " read from afar\n";
  daemon.TellStarts();
}

// Folder, keys and database are half made.
TEST(KillNine, AFirstStartThatWasKilledIsDoneAgain) {
  std::cout << "seed " << first_seed << "\n";
  KilledDaemon daemon;
  std::mt19937_64 random(first_seed);
  daemon.Spawn();
  const absl::Duration usual = daemon.AwaitServing();
  daemon.Kill();
  for (int life = 0; life < std::max(1, kills / 10); ++life) {
    daemon.ForgetData();
    daemon.Spawn();
    DieStarting(daemon, life, usual, random);
    daemon.Spawn();
    daemon.AwaitServing();
    if (HasFailure()) return daemon.Kill();
    TestClient client(daemon.socket());
    const CompileAnswer answer = client.Compile(RequestOf(life));
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    daemon.Kill();
  }
  daemon.TellStarts();
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) kiln::first_seed = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) kiln::kills = std::atoi(argv[2]);
  return RUN_ALL_TESTS();
}

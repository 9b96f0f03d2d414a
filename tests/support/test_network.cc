#include "tests/support/test_network.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tests/support/run_program.h"

namespace kiln {
namespace {

void Run(const std::string& program, absl::string_view words) {
  std::vector<std::string> all = {program};
  for (absl::string_view word : absl::StrSplit(words, ' '))
    all.emplace_back(word);
  const ProgramRun run = RunProgram(all);
  ASSERT_EQ(run.exit_code, 0) << absl::StrJoin(all, " ") << ": " << run.err;
}

void Ip(absl::string_view words) { Run("/usr/sbin/ip", words); }
void Nft(absl::string_view words) { Run("/usr/sbin/nft", words); }

std::string Near(int machine) { return absl::StrCat("10.77.", machine, ".1"); }
std::string Far(int machine) { return absl::StrCat("10.77.", machine, ".2"); }
std::string Wire(int machine) { return absl::StrCat("kiln", machine); }

// What the test's packets and those between machines pass.
void MakeTable() {
  Nft("add table ip kiln");
  Nft("add chain ip kiln come { type filter hook prerouting priority 0 ; }");
  Nft("add chain ip kiln leave { type filter hook output priority 0 ; }");
}

// This process's own, with nothing in it but the router.
void EnterNetwork() {
  static const bool entered = [] {
    EXPECT_EQ(unshare(CLONE_NEWNET), 0) << strerror(errno);
    std::ofstream("/proc/sys/net/ipv4/ip_forward") << "1";
    Ip("link set lo up");
    MakeTable();
    return true;
  }();
  ASSERT_TRUE(entered);
}

}  // namespace

std::string TestNetwork::WhyNot() {
  constexpr std::pair<int, absl::string_view> kRights[] = {
      {12, "CAP_NET_ADMIN"}, {21, "CAP_SYS_ADMIN"}};
  std::ifstream status("/proc/thread-self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("CapEff:", 0) != 0) continue;
    const uint64_t has = std::stoull(line.substr(7), nullptr, 16);
    for (const auto& [bit, name] : kRights) {
      if ((has >> bit & 1) == 0)
        return absl::StrCat("network namespaces take ", name);
    }
    return "";
  }
  return "/proc does not tell this process's rights";
}

TestNetwork::TestNetwork(int machines) {
  EnterNetwork();
  for (int m = 0; m < machines; ++m) {
    std::thread([&] {
      ASSERT_EQ(unshare(CLONE_NEWNET), 0) << strerror(errno);
      Ip("link set lo up");
      Ip(absl::StrCat("link add eth0 type veth peer name ", Wire(m), " netns ",
                      getpid()));
      Ip(absl::StrCat("addr add ", Far(m), "/30 dev eth0"));
      Ip("link set eth0 up");
      Ip(absl::StrCat("route add default via ", Near(m)));
      machines_.push_back(
          open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    }).join();
    Ip(absl::StrCat("addr add ", Near(m), "/30 dev ", Wire(m)));
    Ip(absl::StrCat("link set ", Wire(m), " up"));
  }
}

TestNetwork::~TestNetwork() {
  Heal();
  for (size_t m = 0; m < machines_.size(); ++m) {
    Ip(absl::StrCat("link del ", Wire(static_cast<int>(m))));
    close(machines_[m]);
  }
}

std::string TestNetwork::Address(int machine) const { return Far(machine); }

void TestNetwork::On(int machine, const std::function<void()>& run) const {
  std::thread([&] {
    ASSERT_EQ(setns(machines_[machine], CLONE_NEWNET), 0) << strerror(errno);
    run();
  }).join();
}

void TestNetwork::Lose(int one, int other, int percent) const {
  if (one == kTest) std::swap(one, other);
  // A random number is below 100 always, which nft does not take.
  const std::string lost =
      percent >= 100
          ? " drop"
          : absl::StrCat(" numgen random mod 100 < ", percent, " drop");
  const std::string first = Far(one);
  const std::string second = other == kTest ? Near(one) : Far(other);
  for (const auto& [from, to] :
       {std::pair(first, second), std::pair(second, first)}) {
    for (const char* chain : {"come", "leave"}) {
      Nft(absl::StrCat("add rule ip kiln ", chain, " ip saddr ", from,
                       " ip daddr ", to, lost));
    }
  }
}

void TestNetwork::Heal() const { Nft("flush table ip kiln"); }

}  // namespace kiln

#ifndef KILN_TESTS_SUPPORT_TEST_NETWORK_H_
#define KILN_TESTS_SUPPORT_TEST_NETWORK_H_

#include <functional>
#include <string>
#include <vector>

namespace kiln {

// Machines, each a network namespace, joined by wires of the kernel's (veth) at a
// router in between, which is where the test itself stands. nftables there loses
// packets: nobody is told, connections stay and get no answer.
//
//   machine 0 -- 10.77.0.2 ~~~ 10.77.0.1 --+
//   machine 1 -- 10.77.1.2 ~~~ 10.77.1.1 --+-- the test
//
// Takes root with CAP_SYS_ADMIN and CAP_NET_ADMIN, ip and nft. Fails the test where
// one of these is missing, but for the rights: ask WhyNot first.
class TestNetwork {
 public:
  // The place of the test itself, for Lose.
  static constexpr int kTest = -1;

  // Which right this process lacks; empty: none.
  static std::string WhyNot();

  // The first one takes this process into a network of its own: before it has
  // threads that use one.
  explicit TestNetwork(int machines);
  TestNetwork(const TestNetwork&) = delete;
  TestNetwork& operator=(const TestNetwork&) = delete;
  ~TestNetwork();

  // Of a machine, as all others reach it.
  std::string Address(int machine) const;

  // Runs it on a thread of that machine's, and waits. Processes and sockets that it
  // makes stay there.
  void On(int machine, const std::function<void()>& run) const;

  // Between the two, each packet is lost with this probability from now on; 100: all.
  void Lose(int one, int other, int percent) const;
  void Cut(int one, int other) const { Lose(one, other, 100); }
  // Nothing is lost from now on.
  void Heal() const;

 private:
  std::vector<int> machines_;  // descriptors of their namespaces
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_TEST_NETWORK_H_

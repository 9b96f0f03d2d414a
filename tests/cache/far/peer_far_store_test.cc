// A peer that is gone, silent, or lies.

#include "cache/far/peer_far_store.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cache/entry_id.h"
#include "proto/base/status.h"
#include "tests/support/fake_peer.h"
#include "tests/support/free_port.h"
#include "tests/support/map_far_store.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_ca.h"

namespace kiln {
namespace {

constexpr int64_t kMaxRecordBytes = 64 << 10;

// Long enough that only what never comes is late; and a budget that ends.
SteadyTime Soon() { return After(SteadyNow(), absl::Seconds(20)); }
SteadyTime InABudget() { return After(SteadyNow(), absl::Milliseconds(100)); }

const FarName kEntry = {Sha256Of("key"), Sha256Of("entry")};
const FarName kUnit = {Sha256Of("unit"), std::nullopt};

// A port that says what a test wants to whoever connects, and is no gRPC server.
class OtherServer {
 public:
  // Nothing, when `words` are empty: connections are made, and no byte comes.
  explicit OtherServer(std::string words)
      : words_(std::move(words)),
        fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 128), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~OtherServer() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  void Serve() {
    while (true) {
      const int peer = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (peer < 0) return;
      if (words_.empty()) continue;  // kept open by nobody's closing it
      send(peer, words_.data(), words_.size(), MSG_NOSIGNAL);
      close(peer);
    }
  }

  const std::string words_;
  const int fd_;
  int port_ = 0;
  std::thread thread_;
};

class PeerFarStoreTest : public testing::Test {
 protected:
  PeerFarStoreTest()
      : ca_(folder_.path(), "ca"),
        peer_(store_, ca_.Issue("peer.example", "peer"), ca_.file()) {}

  DaemonTls Tls() {
    const TestCa::Files own = ca_.Issue("own.example", "own");
    return {.ca = ca_.file(), .certificate = own.certificate, .key = own.key};
  }
  std::shared_ptr<PeerFarStore> OpenAt(const std::string& address) {
    auto opened = PeerFarStore::Open({.address = address,
                                      .tls = Tls(),
                                      .max_record_bytes = kMaxRecordBytes});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *opened;
  }
  // One that was asked before, so that its connection stands.
  std::shared_ptr<PeerFarStore> OpenConnected() {
    auto opened = OpenAt(peer_.address());
    EXPECT_TRUE(opened->Hints(kEntry.key, Soon()).ok());
    return opened;
  }

  const ShortFolder folder_;
  TestCa ca_;
  MapFarStore store_;
  FakePeer peer_;
};

TEST_F(PeerFarStoreTest, FindsWhatThePeerHas) {
  ASSERT_TRUE(store_.Put(kEntry, "hint", "record", Soon()).ok());
  ASSERT_TRUE(store_.Put(kUnit, "", "object", Soon()).ok());
  const auto peer = OpenAt(peer_.address());
  const auto hints = peer->Hints(kEntry.key, Soon());
  ASSERT_TRUE(hints.ok()) << hints.status();
  ASSERT_EQ(hints->size(), 1u);
  EXPECT_EQ(hints->front().id, kEntry.entry->ToBytes());
  EXPECT_EQ(hints->front().hint, "hint");
  EXPECT_EQ(*peer->Get(kEntry, Soon()), "record");
  EXPECT_EQ(*peer->Get(kUnit, Soon()), "object");
  EXPECT_TRUE(peer->Hints(Sha256Of("other"), Soon())->empty());
  EXPECT_TRUE(absl::IsNotFound(
      peer->Get({Sha256Of("other"), std::nullopt}, Soon()).status()));
}

TEST_F(PeerFarStoreTest, WhatIsTooLargeOrTooMuchIsRefused) {
  const auto peer = OpenConnected();
  peer_.AnswerGet([](wire::GetRecordReply& reply) {
    reply.set_record(std::string(kMaxRecordBytes + 1, 'x'));
    return grpc::Status::OK;
  });
  EXPECT_EQ(ReasonOf(peer->Get(kEntry, Soon()).status()),
            ErrorReason::kTooLarge);
  peer_.AnswerHints([](wire::HintsReply& reply) {
    for (int i = 0; i <= kMaxEntriesPerKey; ++i) reply.add_hints();
    return grpc::Status::OK;
  });
  EXPECT_EQ(ReasonOf(peer->Hints(kEntry.key, Soon()).status()),
            ErrorReason::kArtifactCorrupt);
  // More than a message of this may have: gRPC reads no further.
  peer_.AnswerHints([](wire::HintsReply& reply) {
    reply.add_hints()->set_hint(std::string(16 << 20, 'x'));
    return grpc::Status::OK;
  });
  EXPECT_EQ(ReasonOf(peer->Hints(kEntry.key, Soon()).status()),
            ErrorReason::kStorage);
  // It answers, so it is not left alone.
  EXPECT_EQ(ReasonOf(peer->Get(kUnit, Soon()).status()),
            ErrorReason::kTooLarge);
}

TEST_F(PeerFarStoreTest, ARefusalIsTold) {
  const auto peer = OpenConnected();
  peer_.AnswerGet([](wire::GetRecordReply&) {
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no role");
  });
  EXPECT_EQ(ReasonOf(peer->Get(kEntry, Soon()).status()),
            ErrorReason::kPermission);
  // A daemon of another build, that has no such service.
  const absl::Status put = peer->Put(kEntry, "hint", "record", Soon());
  EXPECT_EQ(ReasonOf(put), ErrorReason::kStorage) << put;
  EXPECT_FALSE(peer->WasLeftAlone(put));
}

TEST_F(PeerFarStoreTest, ASilentOneCostsOneBudgetAndIsThenLeftAlone) {
  ASSERT_TRUE(store_.Put(kUnit, "", "object", Soon()).ok());
  const auto peer = OpenConnected();
  peer_.Freeze();
  EXPECT_TRUE(absl::IsDeadlineExceeded(peer->Get(kUnit, InABudget()).status()));
  // On a busy machine the pause may be over already.
  absl::Status next;
  do {
    next = peer->Get(kUnit, InABudget()).status();
    ASSERT_FALSE(next.ok());
  } while (!peer->WasLeftAlone(next));
  EXPECT_EQ(ReasonOf(next), ErrorReason::kStorage);
  peer_.Thaw();
  absl::StatusOr<std::string> found;
  const SteadyTime patience = Soon();
  do {
    found = peer->Get(kUnit, Soon());
    ASSERT_LT(SteadyNow(), patience) << found.status();
  } while (!found.ok());
  EXPECT_EQ(*found, "object");
}

TEST_F(PeerFarStoreTest, OneThatIsGoneIsUnavailable) {
  const auto peer = OpenAt(absl::StrCat("127.0.0.1:", FreePort()));
  absl::Status gone = peer->Get(kUnit, Soon()).status();
  EXPECT_EQ(ReasonOf(gone), ErrorReason::kStorage) << gone;
}

TEST_F(PeerFarStoreTest, ABlackHoleCostsABudget) {
  const OtherServer hole("");
  const auto peer = OpenAt(hole.address());
  EXPECT_TRUE(absl::IsDeadlineExceeded(peer->Get(kUnit, InABudget()).status()));
}

TEST_F(PeerFarStoreTest, GarbageIsNoPeer) {
  const OtherServer garbage(std::string(4096, '\x5a'));
  const auto peer = OpenAt(garbage.address());
  const absl::Status status = peer->Get(kUnit, Soon()).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kStorage) << status;
}

TEST_F(PeerFarStoreTest, OneThatAnotherCaSignedIsNotAsked) {
  TestCa foreign(folder_.path(), "foreign");
  FakePeer impostor(store_, foreign.Issue("peer.example", "impostor"),
                    ca_.file());
  ASSERT_TRUE(store_.Put(kUnit, "", "object", Soon()).ok());
  const auto peer = OpenAt(impostor.address());
  EXPECT_EQ(ReasonOf(peer->Get(kUnit, Soon()).status()), ErrorReason::kStorage);
}

TEST_F(PeerFarStoreTest, WithoutACaItIsNotOpened) {
  EXPECT_EQ(
      ReasonOf(PeerFarStore::Open({.address = "peer.example:7117"}).status()),
      ErrorReason::kBadOption);
}

}  // namespace
}  // namespace kiln

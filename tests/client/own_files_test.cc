// What a caller over TCP is told of its own files and addresses: secrets that lie
// open, files that are none of their kind, connections that were not made.

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/compile_client.h"
#include "gtest/gtest.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/rpc/daemon_tls.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_ca.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

class OwnFiles : public testing::Test {
 protected:
  OwnFiles()
      : ca_(folder_.path(), "ca"),
        own_(ca_.Issue("trainer.example", "trainer")),
        token_(absl::StrCat(folder_.path(), "/token")) {
    std::ofstream(token_) << "ci.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n";
    chmod(token_.c_str(), 0600);
  }

  const ShortFolder folder_;
  TestCa ca_;
  const TestCa::Files own_;
  const std::string token_;
};

TEST_F(OwnFiles, ASecretThatEverybodyReadsIsNotShown) {
  struct Row {
    mode_t mode;
    bool good;
  };
  for (const Row& row :
       {Row{0600, true}, Row{0400, true}, Row{0440, true}, Row{0644, false},
        Row{0604, false}, Row{0620, false}}) {
    ASSERT_EQ(chmod(token_.c_str(), row.mode), 0);
    ASSERT_EQ(chmod(own_.key.c_str(), row.mode), 0);
    for (const DaemonTls& tls :
         {DaemonTls{.ca = ca_.file(), .token_file = token_},
          DaemonTls{.ca = ca_.file(),
          .certificate = own_.certificate,
          .key = own_.key}}) {
      const absl::Status status = CredentialsFor("127.0.0.1:1", tls).status();
      EXPECT_EQ(status.ok(), row.good) << row.mode << status;
      if (row.good) continue;
      EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption);
      EXPECT_TRUE(absl::StrContains(status.message(), "chmod 600 ")) << status;
    }
  }
}

TEST_F(OwnFiles, APipeInThePlaceOfATokenIsNotWaitedFor) {
  const std::string pipe = folder_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const DaemonTls tls = {.ca = ca_.file(), .token_file = pipe};
  EXPECT_EQ(CredentialsFor("127.0.0.1:1", tls).status().message(),
            "token file: " + pipe + ": has no token in its first line");
}

TEST_F(OwnFiles, AFileThatIsNoneOfItsKindIsNamed) {
  struct Row {
    DaemonTls tls;
    std::string message;
  };
  for (const Row& row :
       {Row{{.ca = own_.key},
            "TLS CA: " + own_.key + ": found no CERTIFICATE in PEM"},
        Row{{.ca = "/nowhere.crt"},
            "TLS CA: /nowhere.crt: can't be read: No such file or directory"},
        Row{{.ca = folder_.path()},
            "TLS CA: " + folder_.path() + ": can't be read: Is a directory"},
        Row{{.ca = ca_.file(), .token_file = "/nowhere"},
            "token file: /nowhere: can't be read: No such file or directory"},
        Row{{.ca = ca_.file(), .certificate = own_.key, .key = own_.key},
            own_.key + ": found no CERTIFICATE in PEM"},
        Row{{.ca = ca_.file(),
        .certificate = own_.certificate,
        .key = ca_.file()},
            ca_.file() + ": found no PRIVATE KEY in PEM"}}) {
    const absl::Status status = CredentialsFor("127.0.0.1:1", row.tls).status();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << status;
    EXPECT_EQ(status.message(), row.message);
  }
}

// Who names what is not there, or another's CA.
TEST_F(OwnFiles, AConnectionThatIsNotMadeIsToldOfInOurWords) {
  const TestCa::Files served = ca_.Issue("kilnd.example", "kilnd");
  TestCa stranger(folder_.path(), "stranger");
  TestDaemon secure([&](Config& config) {
    config.tcp = "127.0.0.1:0";
    config.tls_certificate = served.certificate;
    config.tls_key = served.key;
  });
  TestDaemon plain([](Config& config) {
    config.tcp = "127.0.0.1:0";
    config.tcp_plain = true;
  });
  const int port = secure.daemon().tcp_port();
  const int plain_port = plain.daemon().tcp_port();
  struct Row {
    int port;
    DaemonTls tls;
    const char* words;
  };
  for (const Row& row :
       {Row{port, {}, "it closed the connection; a port with TLS takes the CA"},
        Row{port,
            {.ca = stranger.file()},
            "its certificate has expired (then the daemon logs tls.expired), "
            "or the TLS CA did not sign it; name the CA"},
        Row{plain_port, {.ca = ca_.file()}, "it does not use TLS"},
        Row{1, {}, "Connection refused; no daemon listens there"}}) {
    const std::string tcp = absl::StrCat("127.0.0.1:", row.port);
    const absl::Status status =
        CompileClient::Connect(
            {.tcp = tcp,
             .tls = row.tls,
             .public_keys = {SigningKey::Generate()->public_key()}})
            .status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(
        absl::StrContains(status.message(), absl::StrCat(tcp, ": ", row.words)))
        << status;
    for (const char* raw : {"SSL", "ipv4", "last error"})
      EXPECT_FALSE(absl::StrContains(status.message(), raw)) << status;
  }
}

}  // namespace
}  // namespace kiln

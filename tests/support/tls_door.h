#ifndef KILN_TESTS_SUPPORT_TLS_DOOR_H_
#define KILN_TESTS_SUPPORT_TLS_DOOR_H_

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "server/access/audit_log.h"
#include "server/access/gatekeeper.h"
#include "server/access/open_folder.h"
#include "server/access/token_store.h"
#include "server/front_door.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_ca.h"

namespace kiln {

// A network's door with TLS at which nobody is known. It is kilnd.example, and reads
// its certificate again for each connection.
struct TlsDoor {
  explicit TlsDoor(const QuietLimits& quiet = {}) {
    auto opened = FrontDoor::Open(
        {.tcp = "127.0.0.1:0",
         .tls = {own.certificate, own.key, "", absl::ZeroDuration()},
         .max_message_bytes = 1 << 20,
         .quiet = quiet},
        nullptr, {}, {gate, peers, *audit, counters, clock});
    EXPECT_TRUE(opened.ok()) << opened.status();
    door = *std::move(opened);
    door->SetServing(true);
  }
  std::string Audit() const {
    std::ifstream in(absl::StrCat(folder.path(), "/audit.log"));
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const ShortFolder folder;
  TestCa ca{folder.path(), "ca"};
  const TestCa::Files own = ca.Issue("kilnd.example", "kilnd");
  const RealClock clock;
  Counters counters;
  PeerNumbers peers{clock};
  const std::unique_ptr<TokenStore> tokens =
      *TokenStore::Open(*OpenFolder::Open(folder.path()), clock);
  const std::unique_ptr<AuditLog> audit =
      *AuditLog::Open(*OpenFolder::Open(folder.path()), clock);
  const Gatekeeper gate{{peers, *tokens, *audit, counters}, {.owner = 0}};
  std::unique_ptr<FrontDoor> door;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_TLS_DOOR_H_

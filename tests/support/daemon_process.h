#ifndef KILN_TESTS_SUPPORT_DAEMON_PROCESS_H_
#define KILN_TESTS_SUPPORT_DAEMON_PROCESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/base/child.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_daemon.h"

namespace kiln {

// kilnd as a process of its own, with two fake workers. Killed when destroyed.
class DaemonProcess {
 public:
  // `toml`: tables of its configuration, without [storage] and [workers].
  // `listen`: lines of its table [listen]. `signing_key`: the file of the key that
  // it signs with; empty: one of its own. Serves when this returns.
  explicit DaemonProcess(absl::string_view toml, absl::string_view listen = "",
                         const std::string& signing_key = "");

  // Over its Unix socket.
  TestClient& client() { return *client_; }
  std::string socket() const { return folder_.path() + "/kilnd.sock"; }
  std::string signing_key() const { return data() + "/signing.key"; }
  void Kill() { child_.reset(); }

  // One of its counters; fails the test where there is none of the name.
  int64_t Count(absl::string_view name);
  // Until the counter is that high.
  void Await(absl::string_view name, int64_t due);
  // Lets fake workers behind `fake.gate.NAME` go on.
  void OpenGate(const std::string& name);

 private:
  std::string data() const { return folder_.path() + "/data"; }

  const ShortFolder folder_;
  std::optional<Child> child_;
  std::unique_ptr<TestClient> client_;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_DAEMON_PROCESS_H_

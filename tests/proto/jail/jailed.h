#ifndef KILN_TESTS_PROTO_JAIL_JAILED_H_
#define KILN_TESTS_PROTO_JAIL_JAILED_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/jail/jailed_child.h"
#include "tests/support/short_folder.h"

namespace kiln {

// Of a program with a sanitizer a fork bomb takes its time on a busy machine.
inline constexpr absl::Duration kJailPatience = absl::Minutes(10);
// Names the lying worker for a test of ours that runs with less rights.
inline constexpr char kLyingWorkerVariable[] = "KILN_LYING_WORKER";

std::string LyingWorker();

// Whether a process of ours may have this level, asked of the kernel past all of
// Kiln.
bool Grants(JailLevel level);
JailLevel StrongestGranted();

// The worker's answer to an order of lying_worker_main.cc.
std::string Ask(JailedChild& worker, const std::string& order);

// The data folder of a daemon, with all that a worker is after: a signing key, a
// socket somebody listens on, another's scratch folder. At each level.
class Jailed : public testing::TestWithParam<JailLevel> {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }

  JailedChildOptions Options() const;

  // Null, and as it is due, where the machine does not grant the level.
  std::unique_ptr<JailedChild> Start(const JailedChildOptions& options) const;
  std::unique_ptr<JailedChild> Start() const { return Start(Options()); }
  std::unique_ptr<JailedChild> StartWithGpu(bool gpu) const;

  bool has_view() const { return GetParam() >= JailLevel::kLandlock; }

  ShortFolder folder_;
  int socket_ = -1;
};

}  // namespace kiln

#endif  // KILN_TESTS_PROTO_JAIL_JAILED_H_

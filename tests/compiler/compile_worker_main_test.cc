// The program kiln-worker: what it does when its daemon or its compiler fails.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/child.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"
#include "proto/base/work_error.h"
#include "proto/worker.pb.h"

namespace kiln {
namespace {

constexpr int kPatienceMs = 60000;

// Answers questions for versions as g++; `otherwise` is what it does with a
// source, "$@" being the arguments.
std::string Script(const std::string& folder, const std::string& otherwise) {
  const std::string path = absl::StrCat(folder, "/compiler");
  std::ofstream(path) << "#!/bin/sh\ncase \"$1\" in --version | -print*) exec "
                         "g++ \"$@\";; esac\n"
                      << otherwise << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

// A worker process whose daemon is this test.
class Worker {
 public:
  Worker(const std::string& folder, const std::string& compiler) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ChildOptions options;
    options.program =
        absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/compiler/kiln-worker");
    options.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C",
                   absl::StrCat("TMPDIR=", folder),
                   absl::StrCat("KILN_HOST_CC=", compiler)};
    options.folder = folder;
    options.output_file = absl::StrCat(folder, "/stderr.log");
    options.descriptors = {{.ours = ends[1], .childs = 3}};
    auto child = Child::Start(options);
    EXPECT_TRUE(child.ok()) << child.status();
    close(ends[1]);
    fd_ = ends[0];
    child_.emplace(*std::move(child));
  }
  ~Worker() { Leave(); }

  void Send(const wire::WorkRequest& request) {
    EXPECT_TRUE(WriteFrame(fd_, request.SerializeAsString()).ok());
  }
  wire::WorkReply Reply() {
    wire::WorkReply reply;
    const auto bytes = ReadFrame(fd_);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_TRUE(bytes.ok() && reply.ParseFromString(*bytes));
    return reply;
  }
  // Ends as a daemon that is killed: its descriptors close.
  void Leave() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  // How it ended by itself, as waitpid says it.
  int End() { return child_->Wait(); }

 private:
  int fd_ = -1;
  std::optional<Child> child_;
};

wire::WorkRequest BuildOf(const std::string& symbol) {
  wire::WorkRequest request;
  wire::TranslationUnit& unit = *request.mutable_build()->mutable_unit();
  unit.set_source(
      absl::StrCat("extern \"C\" __attribute__((visibility(\"default\"))) int ",
                   symbol, "() { return 2; }\n"));
  unit.add_symbols(symbol);
  request.mutable_build()->mutable_target()->mutable_cpu()->set_level("x86-64");
  return request;
}

class KilnWorker : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  const std::string folder_ = absl::StrCat(
      testing::TempDir(), "/",
      testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(KilnWorker, EndsWithItsDaemonAndTakesItsCompilerAlong) {
  const std::string pipe = absl::StrCat(folder_, "/pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int held = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  // A compiler with a child of its own, as g++ is; both hold the pipe.
  Worker worker(folder_,
                Script(folder_, absl::StrCat("exec 9>", pipe,
                                             "\necho works >&9\nsleep 1000")));
  worker.Send(BuildOf("kiln_two"));
  pollfd entry = {.fd = held, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&entry, 1, kPatienceMs), 1);
  char words[16];
  ASSERT_GT(read(held, words, sizeof(words)), 0);
  worker.Leave();
  const int ended = worker.End();
  EXPECT_TRUE(WIFSIGNALED(ended)) << HowItEnded(ended);
  ASSERT_EQ(poll(&entry, 1, kPatienceMs), 1);
  EXPECT_NE(entry.revents & POLLHUP, 0);
  close(held);
}

TEST_F(KilnWorker, EndsWithZeroWhenItsDaemonLeavesItIdle) {
  Worker worker(folder_, Script(folder_, "exec g++ \"$@\""));
  worker.Send(BuildOf("kiln_two"));
  EXPECT_TRUE(worker.Reply().has_build());
  worker.Leave();
  const int ended = worker.End();
  EXPECT_EQ(ended, 0) << HowItEnded(ended);
}

TEST_F(KilnWorker, AnObjectThatIsAnothersIsRefused) {
  // What a compiler of another job would have left at the same path.
  Worker worker(folder_, Script(folder_,
                                "echo 'extern \"C\" int kiln_one() { return "
                                "1; }' | g++ \"$@\""));
  worker.Send(BuildOf("kiln_two"));
  const wire::WorkReply reply = worker.Reply();
  ASSERT_TRUE(reply.has_error());
  const absl::Status refused = StatusOf(reply.error());
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kToolchainRejected) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "defines no kiln_two"))
      << refused;
}

}  // namespace
}  // namespace kiln

// The program kiln-worker: what it does when its daemon or its compiler fails.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/toolchain/toolchain.h"
#include "gtest/gtest.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"
#include "proto/base/work_error.h"
#include "proto/jail/jailed_child.h"
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
  std::filesystem::permissions(path, std::filesystem::perms(0755));
  return path;
}

// A worker process whose daemon is this test. It may write in `folder`.
class Worker {
 public:
  Worker(const std::string& folder, const std::string& compiler,
         bool lowest_after_hello = false) {
    JailedChildOptions options = {
        .program =
            absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/compiler/kiln-worker"),
        .env = {absl::StrCat("KILN_HOST_CC=", compiler)},
        .scratch_prefix = absl::StrCat(folder, "/worker")};
    options.jail.writable = {folder};
    options.jail.lowest_after_hello = lowest_after_hello;
    auto child = JailedChild::Start(options, absl::Minutes(1));
    EXPECT_TRUE(child.ok()) << child.status();
    child_ = *std::move(child);
  }

  void Send(const wire::WorkRequest& request) {
    EXPECT_TRUE(
        WriteFrame(child_->socket_fd(), request.SerializeAsString()).ok());
  }
  wire::WorkReply Reply() {
    wire::WorkReply reply;
    const auto bytes = ReadFrame(child_->socket_fd());
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_TRUE(bytes.ok() && reply.ParseFromString(*bytes));
    return reply;
  }
  // As the kernel does for a daemon that is killed.
  void Leave() { child_->Interrupt(); }

 private:
  std::unique_ptr<JailedChild> child_;
};

wire::WorkRequest BuildOf(const std::string& symbol) {
  wire::WorkRequest request;
  wire::TranslationUnit& unit = *request.mutable_build()->mutable_unit();
  unit.set_source(
      absl::StrCat("extern \"C\" __attribute__((visibility(\"default\"))) int ",
                   symbol, "() { return 2; }\n"));
  unit.add_symbols(symbol);
  for (std::string& flag :
       UnitFlags({.kind = TargetKind::kCpu, .name = "x86-64"})) {
    unit.add_flags(std::move(flag));
  }
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
  ASSERT_EQ(chmod(pipe.c_str(), 0666), 0);  // the worker is another user
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
  ASSERT_EQ(poll(&entry, 1, kPatienceMs), 1);
  EXPECT_NE(entry.revents & POLLHUP, 0);
  close(held);
}

// A command that writes into `file` at which nice value it runs, and by which policy:
// a process inherits both.
std::string TellPriority(const std::string& file) {
  return absl::StrCat(
      "echo $(nice) $(chrt -p $$ | sed -n 's/.*policy: //p') > ", file);
}

// A compiler that tells its priority in the files `asked` and `built` of `folder`.
std::string TellingCompiler(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/compiler");
  std::ofstream(path) << "#!/bin/sh\ncase \"$1\" in --version | -print*) "
                      << TellPriority(folder + "/asked") << ";; *) "
                      << TellPriority(folder + "/built")
                      << ";; esac\nexec g++ \"$@\"\n";
  chmod(path.c_str(), 0755);
  chmod(folder.c_str(), 0777);  // the worker is another user
  return path;
}

std::string Line(const std::string& folder, const std::string& name) {
  std::ifstream in(absl::StrCat(folder, "/", name));
  std::string line;
  std::getline(in, line);
  return line;
}

constexpr char kLowest[] = "19 SCHED_BATCH";

wire::WorkRequest Hello() {
  wire::WorkRequest hello;
  hello.mutable_hello();
  return hello;
}

// A daemon's start waits for the first hello, and nobody whose priority counts for a
// job.
TEST_F(KilnWorker, TheFirstSaysHelloAtItsDaemonsPriorityAndJobsAtTheLowest) {
  ASSERT_EQ(std::system(TellPriority(folder_ + "/ours").c_str()), 0);
  Worker worker(folder_, TellingCompiler(folder_), /*lowest_after_hello=*/true);
  worker.Send(Hello());
  EXPECT_TRUE(worker.Reply().has_hello());
  EXPECT_EQ(Line(folder_, "asked"), Line(folder_, "ours"));
  EXPECT_NE(Line(folder_, "ours"), "");
  worker.Send(BuildOf("kiln_two"));
  const wire::WorkReply built = worker.Reply();
  EXPECT_TRUE(built.has_build()) << built.error().message();
  EXPECT_EQ(Line(folder_, "built"), kLowest);
}

// Hits of its daemon go before it; a client's own worker is as this one.
TEST_F(KilnWorker, AnotherSaysHelloAtTheLowestPriority) {
  Worker worker(folder_, TellingCompiler(folder_));
  worker.Send(Hello());
  EXPECT_TRUE(worker.Reply().has_hello());
  EXPECT_EQ(Line(folder_, "asked"), kLowest);
}

TEST_F(KilnWorker, DoesAJobThatComesFirstAtTheLowestPriority) {
  Worker worker(folder_, TellingCompiler(folder_));
  worker.Send(BuildOf("kiln_two"));
  const wire::WorkReply built = worker.Reply();
  EXPECT_TRUE(built.has_build()) << built.error().message();
  EXPECT_EQ(Line(folder_, "built"), kLowest);
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
  EXPECT_TRUE(
      absl::StrContains(refused.message(), "expected a definition of kiln_two"))
      << refused;
}

// The answer to a build of `request` by the machine's own compiler.
wire::WorkReply BuildAt(const std::string& folder,
                        const wire::WorkRequest& request) {
  Worker worker(folder, "");
  worker.Send(request);
  return worker.Reply();
}

TEST_F(KilnWorker, FlagsThatAPlanChoseAreRefused) {
  wire::WorkRequest request = BuildOf("kiln_two");
  EXPECT_TRUE(BuildAt(folder_, request).has_build());
  request.mutable_build()->mutable_unit()->add_flags("-fplugin=/tmp/own.so");
  const wire::WorkReply reply = BuildAt(folder_, request);
  ASSERT_TRUE(reply.has_error());
  EXPECT_EQ(ReasonOf(StatusOf(reply.error())), ErrorReason::kBadOption);
}

TEST_F(KilnWorker, AnObjectWithAConstructorIsRefused) {
  wire::WorkRequest request = BuildOf("kiln_two");
  wire::TranslationUnit& unit = *request.mutable_build()->mutable_unit();
  unit.set_source(absl::StrCat(
      unit.source(), "__attribute__((constructor)) void run() { asm(\"\"); }"));
  const wire::WorkReply reply = BuildAt(folder_, request);
  ASSERT_TRUE(reply.has_error());
  const absl::Status refused = StatusOf(reply.error());
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kToolchainRejected) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "object code: entry 0x19"))
      << refused;
}

TEST_F(KilnWorker, ASourceReadsNoFileOfTheMachine) {
  std::ofstream(absl::StrCat(folder_, ".secret")) << "int secret;";
  for (const std::string& path :
       {absl::StrCat(folder_, ".secret"), std::string("/etc/passwd")}) {
    wire::WorkRequest request = BuildOf("kiln_two");
    wire::TranslationUnit& unit = *request.mutable_build()->mutable_unit();
    unit.set_source(absl::StrCat("#include \"", path, "\"\n", unit.source()));
    const wire::WorkReply reply = BuildAt(folder_, request);
    ASSERT_TRUE(reply.has_error()) << path;
    EXPECT_TRUE(absl::StrContains(reply.error().message(),
                                  "No such file or directory") ||
                absl::StrContains(reply.error().message(), "Permission denied"))
        << reply.error().message();
  }
}

}  // namespace
}  // namespace kiln

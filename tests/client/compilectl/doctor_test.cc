#include "client/compilectl/doctor.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gtest/gtest.h"
#include "proto/base/signature.h"
#include "tests/support/short_folder.h"

// Each trouble that doctor names, made: its finding, and what to type.

namespace kiln {
namespace {

Finding FindingOf(const DoctorOptions& options, const std::string& subject) {
  for (const Finding& finding : Examine(options)) {
    if (finding.subject == subject) return finding;
  }
  return {.subject = "nothing about " + subject};
}

void ExpectBad(const Finding& finding, const std::string& found,
               const std::string& remedy) {
  EXPECT_EQ(finding.health, Health::kBad) << finding.subject;
  EXPECT_NE(finding.found.find(found), std::string::npos) << finding.found;
  EXPECT_NE(finding.remedy.find(remedy), std::string::npos) << finding.remedy;
}

// A machine where everything is well but the daemon, which is not there.
class Doctor : public testing::Test {
 protected:
  Doctor() {
    options_.daemon.socket = folder_.path() + "/kilnd.sock";
    options_.data_folder = folder_.path();
    options_.ask_worker = [this] { return hello_; };
    Say("g++", "12.2.0", "/usr/bin/g++");
    Say("nvrtc", "NVRTC 13.0", "/b/libnvrtc.so.13");
    options_.can_load = [](const std::string&) { return true; };
    options_.least_free_bytes = 1;
  }

  // A socket that nobody serves: its descriptor, until the test ends.
  int MakeSocket(mode_t mode) {
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    std::strncpy(name.sun_path, options_.daemon.socket.c_str(),
                 sizeof(name.sun_path) - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)),
              0);
    EXPECT_EQ(chmod(options_.daemon.socket.c_str(), mode), 0);
    return fd;
  }

  // What the worker tells of a compiler. Without a path it has none.
  void Say(const std::string& name, const std::string& words,
           const std::string& path) {
    wire::Toolchain& tool = *hello_.add_toolchains();
    tool.set_name(name);
    tool.set_path(path);
    path.empty() ? tool.set_missing(words) : tool.set_version(words);
  }

  ShortFolder folder_;
  DoctorOptions options_;
  wire::HelloReply hello_;
};

TEST_F(Doctor, WithoutADaemonItSaysHowToStartOne) {
  ExpectBad(FindingOf(options_, "daemon"), "No such file", "kilnd --socket ");
  ExpectBad(FindingOf(options_, "socket"), "No such file", "kilnd --socket ");
  EXPECT_TRUE(AnythingBad(Examine(options_)));
  for (const char* subject : {"host compiler", "NVRTC", "CUDA driver", "oneDNN",
                              "data folder", "free disk", "clock"}) {
    EXPECT_EQ(FindingOf(options_, subject).health, Health::kGood) << subject;
  }
}

TEST_F(Doctor, ASocketThatIsAFileIsBad) {
  std::ofstream(options_.daemon.socket) << "no socket";
  ExpectBad(FindingOf(options_, "socket"), "not a socket", "rm ");
}

TEST_F(Doctor, ASocketOfAnotherUserIsBad) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives a file away";
  MakeSocket(0600);
  ASSERT_EQ(chown(options_.daemon.socket.c_str(), 12345, 12345), 0);
  ExpectBad(FindingOf(options_, "socket"), "owned by user 12345",
            "a kilnd of your own");
}

TEST_F(Doctor, ASocketThatNobodyServesIsNoDaemon) {
  MakeSocket(0600);
  ExpectBad(FindingOf(options_, "socket"), "left behind, no process listens",
            "kilnd --socket ");
  ExpectBad(FindingOf(options_, "daemon"), "refused", "kilnd --socket ");
  options_.starts_itself = true;
  EXPECT_EQ(FindingOf(options_, "socket").health, Health::kAbsent);
  EXPECT_EQ(FindingOf(options_, "daemon").health, Health::kAbsent);
}

TEST_F(Doctor, ASocketOfAnotherProgramIsNoDaemon) {
  const int door = MakeSocket(0600);
  ASSERT_EQ(listen(door, 16), 0);
  // It greets callers in words of its own, as an SSH agent or a web server.
  std::thread other([door] {
    for (int fd = accept(door, nullptr, nullptr); fd >= 0;
         fd = accept(door, nullptr, nullptr)) {
      EXPECT_GE(send(fd, "hello\n", 6, MSG_NOSIGNAL), -1);
      close(fd);
    }
  });
  options_.daemon.answer_timeout = absl::Seconds(2);
  for (const bool starts_itself : {false, true}) {
    options_.starts_itself = starts_itself;
    ExpectBad(FindingOf(options_, "socket"), "does not answer as a kilnd",
              "--socket another one");
    ExpectBad(FindingOf(options_, "daemon"), "kilnd", "--socket another one");
  }
  shutdown(door, SHUT_RDWR);
  other.join();
  close(door);
}

TEST_F(Doctor, AnAddressWhereNobodyAnswersIsBad) {
  options_.daemon = {.tcp = "127.0.0.1:1",
                     .public_keys = {SigningKey::Generate()->public_key()}};
  ExpectBad(FindingOf(options_, "address"), "127.0.0.1:1: no kilnd answers",
            "on its machine");
  ExpectBad(FindingOf(options_, "daemon"), "Connection refused",
            "on its machine");
}

TEST_F(Doctor, CompilersAreThoseThatAWorkerFound) {
  EXPECT_EQ(FindingOf(options_, "host compiler").found, "/usr/bin/g++, 12.2.0");
  EXPECT_EQ(FindingOf(options_, "NVRTC").found,
            "/b/libnvrtc.so.13, NVRTC 13.0");
}

TEST_F(Doctor, AMachineWithoutACompilerIsTold) {
  hello_.clear_toolchains();
  Say("host compiler", "none of g++ and clang++", "");
  Say("nvrtc", "found in none of [/a]", "");
  ExpectBad(FindingOf(options_, "host compiler"), "none of g++",
            "apt-get install g++");
  EXPECT_EQ(FindingOf(options_, "NVRTC").health, Health::kAbsent);
  EXPECT_EQ(FindingOf(options_, "NVRTC").found, "found in none of [/a]");
}

TEST_F(Doctor, AWorkerThatCannotStartIsBad) {
  options_.ask_worker = [] { return absl::NotFoundError("no such program"); };
  ExpectBad(FindingOf(options_, "worker"), "no such program", "kilnd --worker");
  options_.kilnd = "./kiln daemon";
  ExpectBad(FindingOf(options_, "worker"), "no such program",
            "./kiln daemon  # builds kiln-worker");
}

TEST_F(Doctor, WhoHasThePythonPackageAloneIsToldWhatPipCanDo) {
  options_.from_wheel = true;
  hello_.clear_toolchains();
  Say("host compiler", "none", "");
  Say("nvrtc", "none", "");
  options_.can_load = [](const std::string&) { return false; };
  EXPECT_EQ(FindingOf(options_, "NVRTC").remedy,
            "pip install 'nvidia-cuda-nvrtc>=13.0,<13.1' && compilectl drain  "
            "# or KILN_CUDA_LIBRARY_PATH=FOLDER");
  for (const Finding& finding : Examine(options_)) {
    EXPECT_EQ(finding.remedy.find("deploy/"), std::string::npos)
        << finding.remedy;
  }
}

TEST_F(Doctor, AFolderIsSpokenOfAsWhoAsksNamesIt) {
  options_.data_folder = absl::StrCat(folder_.path(), "/new");
  EXPECT_EQ(
      FindingOf(options_, "data folder").remedy,
      absl::StrCat("kilnd --data-folder ", folder_.path(), "/new  # makes it"));
  options_.starts_itself = true;
  EXPECT_EQ(FindingOf(options_, "data folder").remedy,
            "the first compile makes it");
  options_.data_folder = absl::StrCat(folder_.path(), "/file");
  std::ofstream(options_.data_folder) << "no folder";
  EXPECT_EQ(FindingOf(options_, "data folder").remedy, "another --data-folder");
  options_.from_wheel = true;
  EXPECT_EQ(FindingOf(options_, "data folder").remedy,
            "another KILN_CACHE_DIR");
}

TEST_F(Doctor, ADaemonThatTheFirstCompileStartsIsNotWrong) {
  options_.starts_itself = true;
  for (const char* subject : {"socket", "daemon"}) {
    const Finding finding = FindingOf(options_, subject);
    EXPECT_EQ(finding.health, Health::kAbsent) << subject;
    EXPECT_EQ(finding.remedy, "the first compile starts the daemon");
  }
  EXPECT_FALSE(AnythingBad(Examine(options_)));
}

// Fine without: the CPU needs none of it.
TEST_F(Doctor, LibrariesThatTheLoaderLacksAreAbsent) {
  options_.can_load = [](const std::string&) { return false; };
  for (const char* subject : {"CUDA driver", "oneDNN"}) {
    const Finding finding = FindingOf(options_, subject);
    EXPECT_EQ(finding.health, Health::kAbsent) << subject;
    EXPECT_NE(finding.remedy, "") << subject;
  }
  EXPECT_FALSE(CanLoad("libkiln-nobody-has-this.so.7"));
}

TEST_F(Doctor, AFolderThatIsNotThereYetIsAbsent) {
  const std::string folder = folder_.path() + "/not/made/yet";
  for (const bool named : {true, false}) {
    options_.data_folder = named ? folder : "";
    options_.default_data_folder = named ? folder_.path() : folder;
    const Finding finding = FindingOf(options_, "data folder");
    EXPECT_EQ(finding.health, Health::kAbsent);
    EXPECT_EQ(finding.found, folder + ": not there yet");
    EXPECT_EQ(finding.remedy.find("kilnd --data-folder " + folder), 0);
  }
}

TEST_F(Doctor, AFolderThatMayNotBeWrittenIsBad) {
  options_.data_folder = folder_.path() + "/locked";
  ASSERT_EQ(mkdir(options_.data_folder.c_str(), 0500), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  // Root may write anywhere, so a child looks as nobody. It leaves at once: what
  // threads of its parent hold is no leak of its own.
  EXPECT_EXIT(
      {
        if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
        const Finding finding = FindingOf(options_, "data folder");
        const bool told =
            finding.health == Health::kBad &&
            finding.found.find("not writable") != std::string::npos;
        _exit(told && finding.remedy.find("chown") == 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Doctor, ADataFolderThatIsAFileIsBad) {
  options_.data_folder = folder_.path() + "/file";
  std::ofstream(options_.data_folder) << "no folder";
  ExpectBad(FindingOf(options_, "data folder"), "not a folder",
            "--data-folder");
}

TEST_F(Doctor, AFolderThatCannotBeMadeIsBad) {
  options_.data_folder = folder_.path() + "/link";
  ASSERT_EQ(symlink("/nowhere/at/all", options_.data_folder.c_str()), 0);
  ExpectBad(FindingOf(options_, "data folder"), "/link: cannot be made",
            "another --data-folder");
  options_.data_folder = "/proc/kiln";  // where nobody makes folders
  options_.from_wheel = true;
  EXPECT_EQ(FindingOf(options_, "data folder").health, Health::kBad);
  EXPECT_NE(
      FindingOf(options_, "data folder").remedy.find("another KILN_CACHE_DIR"),
      std::string::npos);
}

TEST_F(Doctor, WhoLooksForAFolderLeavesNone) {
  options_.data_folder = folder_.path() + "/new";
  EXPECT_EQ(FindingOf(options_, "data folder").health, Health::kAbsent);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(Doctor, ASocketThatMayNotBeReachedIsLeftForOnesOwn) {
  ASSERT_EQ(mkdir((folder_.path() + "/shut").c_str(), 0700), 0);
  options_.daemon.socket = folder_.path() + "/shut/kilnd.sock";
  MakeSocket(0600);
  ASSERT_EQ(chmod((folder_.path() + "/shut").c_str(), 0), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  options_.from_wheel = true;
  // Root may go anywhere, so a child looks as nobody.
  EXPECT_EXIT(
      {
        if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
        for (const char* subject : {"socket", "daemon"}) {
          ExpectBad(FindingOf(options_, subject), "Permission denied",
                    "unset KILN_ADDR");
        }
        _exit(HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  ASSERT_EQ(chmod((folder_.path() + "/shut").c_str(), 0700), 0);
}

TEST_F(Doctor, AFullDiskIsBad) {
  options_.least_free_bytes = ~uint64_t{0};
  ExpectBad(FindingOf(options_, "free disk"), "iB",
            "compilectl purge --older-than 7d");
}

TEST_F(Doctor, AClockThatStandsInThePastIsBad) {
  options_.now = absl::UnixEpoch();
  ExpectBad(FindingOf(options_, "clock"), "1970", "timedatectl set-ntp true");
}

TEST_F(Doctor, LinesAreBrokenAndWhatToTypeStandsBelow) {
  EXPECT_EQ(DoctorText({{.subject = "clock", .found = "now"},
                        {.subject = "CUDA driver",
                         .health = Health::kBad,
                         .found = "one two three four five six seven eight "
                                  "nine ten eleven twelve thirteen",
                         .remedy = "type this; it is long and stays on a line "
                                   "of its own to be copied"}},
                       OutputFormat::kTable),
            "good    clock             now\n"
            "BAD     CUDA driver       one two three four five six seven eight "
            "nine ten\n"
            "                          eleven twelve thirteen\n"
            "                          -> type this; it is long and stays on a "
            "line of its own to be copied\n");
}

TEST_F(Doctor, TheSameAsJson) {
  const std::string json = DoctorText(
      {{.subject = "clock", .health = Health::kGood, .found = "now"}},
      OutputFormat::kJson);
  EXPECT_NE(json.find("\"subject\": \"clock\""), std::string::npos);
  EXPECT_NE(json.find("\"health\": \"good\""), std::string::npos);
}

}  // namespace
}  // namespace kiln

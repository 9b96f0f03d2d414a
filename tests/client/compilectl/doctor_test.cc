#include "client/compilectl/doctor.h"

#include <sys/stat.h>

#include <fstream>

#include "gtest/gtest.h"

namespace kiln {
namespace {

Finding FindingOf(const DoctorOptions& options, const std::string& subject) {
  for (const Finding& finding : Examine(options)) {
    if (finding.subject == subject) return finding;
  }
  return {.subject = "nothing about " + subject};
}

TEST(Doctor, WithoutADaemonItSaysWhatToType) {
  DoctorOptions options;
  options.daemon.socket = testing::TempDir() + "/no.sock";
  options.data_folder = testing::TempDir() + "/not/made/yet";
  options.path = "/usr/bin:/bin";
  const Finding daemon = FindingOf(options, "daemon");
  EXPECT_EQ(daemon.health, Health::kBad);
  EXPECT_FALSE(daemon.remedy.empty());
  EXPECT_EQ(FindingOf(options, "data folder").health, Health::kGood);
  EXPECT_EQ(FindingOf(options, "clock").health, Health::kGood);
  EXPECT_TRUE(AnythingBad(Examine(options)));
}

TEST(Doctor, ASocketThatIsAFileIsBad) {
  DoctorOptions options;
  options.daemon.socket = testing::TempDir() + "/file.sock";
  std::ofstream(options.daemon.socket) << "no socket";
  const Finding socket = FindingOf(options, "socket");
  EXPECT_EQ(socket.health, Health::kBad);
  EXPECT_NE(socket.found.find("not a socket"), std::string::npos);
}

TEST(Doctor, AMachineWithoutACompilerIsTold) {
  DoctorOptions options;
  options.path = testing::TempDir();
  const Finding compiler = FindingOf(options, "host compiler");
  EXPECT_EQ(compiler.health, Health::kBad);
  EXPECT_EQ(compiler.remedy, "apt-get install g++");
}

TEST(Doctor, TheSameAsJson) {
  const std::string json = DoctorText(
      {{.subject = "clock", .health = Health::kGood, .found = "now"}},
      OutputFormat::kJson);
  EXPECT_NE(json.find("\"subject\": \"clock\""), std::string::npos);
  EXPECT_NE(json.find("\"health\": \"good\""), std::string::npos);
}

}  // namespace
}  // namespace kiln

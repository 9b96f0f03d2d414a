#include "compiler/toolchain/toolchain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/object_symbols.h"
#include "proto/base/status.h"
#include "tests/support/nvrtc_of_tests.h"

namespace kiln {
namespace {

using testing::HasSubstr;

constexpr char kCpuSource[] =
    "extern \"C\" __attribute__((visibility(\"default\"))) int kiln_two() "
    "{ return 2; }\n";
constexpr char kCudaSource[] =
    "extern \"C\" __global__ void kiln_one(float* p) { p[threadIdx.x] = 1.0f; "
    "}\n";

std::string Scratch(const std::string& name) {
  const std::string dir = testing::TempDir() + "/" + name;
  std::string command = "mkdir -p " + dir;
  EXPECT_EQ(system(command.c_str()), 0);
  return dir;
}

Target TargetOf(absl::string_view name) {
  auto target = TargetFromName(name);
  EXPECT_TRUE(target.ok()) << target.status();
  return *target;
}

std::unique_ptr<Toolchain> HostCc(const std::string& scratch) {
  return MakeHostCcToolchain({.scratch_dir = Scratch(scratch)});
}

// Builds in a child process and gives back the object's bytes.
std::string BuildElsewhere(Toolchain& toolchain, absl::string_view source,
                           const std::vector<std::string>& flags) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    auto built = toolchain.Build(source, flags);
    size_t done = 0;
    while (built.ok() && done < built->image.size()) {
      const ssize_t n =
          write(fds[1], built->image.data() + done, built->image.size() - done);
      if (n <= 0) break;
      done += n;
    }
    _exit(0);
  }
  close(fds[1]);
  std::string bytes;
  char chunk[4096];
  ssize_t n;
  while ((n = read(fds[0], chunk, sizeof(chunk))) > 0) bytes.append(chunk, n);
  close(fds[0]);
  waitpid(pid, nullptr, 0);
  return bytes;
}

TEST(HostCcToolchain, TwoProcessesAndTwoFoldersGiveEqualBytes) {
  const auto flags = UnitFlags(TargetOf("x86-64-v3"));
  auto one = HostCc("one");
  auto two = HostCc("two");
  const auto built = one->Build(kCpuSource, flags);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->log, "");
  EXPECT_EQ(built->image, BuildElsewhere(*two, kCpuSource, flags));
}

TEST(HostCcToolchain, ARejectedSourceIsRefusedInTheCompilersWords) {
  const auto built = HostCc("bad")->Build("int f() { return nowhere; }",
                                          UnitFlags(TargetOf("x86-64")));
  EXPECT_EQ(ReasonOf(built.status()), ErrorReason::kToolchainRejected);
  EXPECT_THAT(std::string(built.status().message()), HasSubstr("nowhere"));
}

TEST(HostCcToolchain, AMachineWithoutACompilerIsToldWhatToType) {
  auto toolchain = MakeHostCcToolchain(
      {.search_path = "/nonexistent", .scratch_dir = Scratch("none")});
  const auto built = toolchain->Build(kCpuSource, {});
  EXPECT_EQ(ReasonOf(built.status()), ErrorReason::kNoToolchain);
  EXPECT_THAT(std::string(built.status().message()),
              HasSubstr("apt-get install g++"));
}

TEST(HostCcToolchain, AnUnwritableScratchFolderIsAStorageError) {
  auto toolchain = MakeHostCcToolchain({.scratch_dir = "/nonexistent/scratch"});
  EXPECT_EQ(ReasonOf(toolchain->Build(kCpuSource, {}).status()),
            ErrorReason::kStorage);
}

TEST(CheckObjectSymbols, ASharedObjectHasThoseOfItsSource) {
  const auto built =
      HostCc("symbols")->Build(kCpuSource, UnitFlags(TargetOf("x86-64")));
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_TRUE(CheckObjectSymbols(built->image, {"kiln_two"}).ok());
  const absl::Status other =
      CheckObjectSymbols(built->image, {"kiln_two", "kiln_three"});
  EXPECT_EQ(ReasonOf(other), ErrorReason::kToolchainRejected);
  EXPECT_THAT(std::string(other.message()), HasSubstr("kiln_three"));
  // However it is cut, nothing is read beyond its end.
  for (size_t bytes = 0; bytes < built->image.size(); bytes += 8) {
    const auto cut =
        CheckObjectSymbols(built->image.substr(0, bytes), {"kiln_three"});
    EXPECT_EQ(ReasonOf(cut), ErrorReason::kToolchainRejected) << bytes;
  }
}

class NvrtcToolchain : public testing::Test {
 protected:
  void SetUp() override {
    KILN_LEAVE_WITHOUT_NVRTC(toolchain_->Version().status());
  }
  std::unique_ptr<Toolchain> toolchain_ =
      MakeNvrtcToolchain({.library_dirs = NvrtcFoldersOfTests()});
};

TEST_F(NvrtcToolchain, TwoProcessesGiveEqualCubins) {
  const auto flags = UnitFlags(TargetOf("sm_90"));
  const std::string elsewhere = BuildElsewhere(*toolchain_, kCudaSource, flags);
  const auto built = toolchain_->Build(kCudaSource, flags);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->image.substr(1, 3), "ELF");
  EXPECT_EQ(built->image, elsewhere);
}

TEST_F(NvrtcToolchain, ACubinHasTheSymbolsOfItsSource) {
  const auto built =
      toolchain_->Build(kCudaSource, UnitFlags(TargetOf("sm_90")));
  ASSERT_TRUE(built.ok()) << built.status();
  const absl::Status own = CheckObjectSymbols(built->image, {"kiln_one"});
  EXPECT_TRUE(own.ok()) << own;
  EXPECT_EQ(ReasonOf(CheckObjectSymbols(built->image, {"kiln_two"})),
            ErrorReason::kToolchainRejected);
}

TEST_F(NvrtcToolchain, ARejectedSourceIsRefusedInTheCompilersWords) {
  const auto built = toolchain_->Build("__global__ void f() { nowhere(); }",
                                       UnitFlags(TargetOf("sm_90")));
  EXPECT_EQ(ReasonOf(built.status()), ErrorReason::kToolchainRejected);
  EXPECT_THAT(std::string(built.status().message()), HasSubstr("nowhere"));
}

TEST(NvrtcToolchainAlone, AMachineWithoutTheLibraryIsToldWhatToType) {
  auto toolchain = MakeNvrtcToolchain({.only_dir = "/nonexistent"});
  const auto version = toolchain->Version();
  EXPECT_EQ(ReasonOf(version.status()), ErrorReason::kNoToolchain);
  for (const char* word : {"/nonexistent", "KILN_CUDA_LIBRARY_PATH=FOLDER",
                           "pip install --target DIR", "DIR/nvidia/cu13/lib"}) {
    EXPECT_THAT(std::string(version.status().message()), HasSubstr(word));
  }
}

// A compiler whose words are a script's, in a folder of its own.
std::string ScriptFolder(const std::string& version) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/bin");
  std::filesystem::create_directories(folder);
  const auto write = [&folder](const char* name, const std::string& says) {
    const std::string path = absl::StrCat(folder, "/", name);
    std::filesystem::remove(path);
    std::ofstream(path) << "#!/bin/sh\necho '" << says << "'\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  };
  write("g++", version);
  write("as", "GNU as");
  write("ld", "GNU ld");
  return folder;
}

// A compiler that says this and fails.
std::string FailingCompiler(const std::string& says) {
  const std::string path = absl::StrCat(testing::TempDir(), "/failing");
  std::ofstream(path) << "#!/bin/sh\necho '" << says << "'\nexit 1\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(HostCcToolchain, AFullDiskIsAStorageErrorThatNamesTheFolder) {
  const std::string scratch = Scratch("full");
  const HostCcConfig cases[] = {
      {.compiler = FailingCompiler("unit.s: No space left on device"),
       .scratch_dir = scratch},
      {.compiler = "/bin/false",
       .scratch_dir = scratch,
       .least_free_bytes = int64_t{1} << 60}};
  for (const HostCcConfig& config : cases) {
    const auto full = MakeHostCcToolchain(config)->Build(kCpuSource, {});
    EXPECT_EQ(ReasonOf(full.status()), ErrorReason::kStorage);
    EXPECT_THAT(std::string(full.status().message()), HasSubstr(scratch));
    EXPECT_THAT(std::string(full.status().message()), HasSubstr("free some"));
  }
}

TEST(HostCcToolchain, TellsWhenTheCompilerWasReplaced) {
  auto toolchain = MakeHostCcToolchain({.search_path = ScriptFolder("g++ 12")});
  EXPECT_EQ(*toolchain->Version(), "g++ 12, GNU ld");
  EXPECT_FALSE(toolchain->Replaced());
  ScriptFolder("g++ 13.1");
  EXPECT_TRUE(toolchain->Replaced());
}

TEST(HostCcToolchain, TellsWhenACompilerCameToAMachineThatHadNone) {
  const std::string folder = ScriptFolder("g++ 12");
  std::filesystem::remove(absl::StrCat(folder, "/g++"));
  auto toolchain = MakeHostCcToolchain({.search_path = folder});
  EXPECT_FALSE(toolchain->Version().ok());
  EXPECT_FALSE(toolchain->Replaced());
  ScriptFolder("g++ 12");
  EXPECT_TRUE(toolchain->Replaced());
}

TEST(HostCcToolchain, AMachineWithoutALinkerIsToldWhatToType) {
  const std::string folder = ScriptFolder("g++ 12");
  std::filesystem::remove(absl::StrCat(folder, "/ld"));
  auto toolchain = MakeHostCcToolchain({.search_path = folder});
  const absl::Status missing = toolchain->Version().status();
  EXPECT_EQ(ReasonOf(missing), ErrorReason::kNoToolchain);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("binutils"));
  EXPECT_FALSE(toolchain->Replaced());
}

TEST(TargetFromName, KnowsItsLevelsAndNamesWhatItDoesNotKnow) {
  EXPECT_EQ(TargetOf("x86-64-v4").vector_bytes, 64);
  EXPECT_EQ(TargetOf("sm_90").compute_capability, 90);
  const auto unknown = TargetFromName("sm_10");
  EXPECT_EQ(ReasonOf(unknown.status()), ErrorReason::kBadTarget);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("sm_10"));
}

}  // namespace
}  // namespace kiln

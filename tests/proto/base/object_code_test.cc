#include "proto/base/object_code.h"

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/child.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

using testing::HasSubstr;

// The shared object that g++ makes of a source, as the worker has it made.
std::string Compiled(const std::string& source,
                     const std::vector<std::string>& flags = {}) {
  const std::string base = absl::StrCat(testing::TempDir(), "/object");
  std::ofstream(base + ".cc") << source;
  ChildOptions options;
  options.program = "/usr/bin/g++";
  options.args = {"-O2",
                  "-fPIC",
                  "-shared",
                  "-nostdlib",
                  "-s",
                  "-Wl,--build-id=none",
                  "-Wl,-z,noseparate-code",
                  "-Wl,--hash-style=gnu",
                  "-o",
                  base + ".so",
                  base + ".cc"};
  options.args.insert(options.args.end(), flags.begin(), flags.end());
  options.env = {"PATH=/usr/bin:/bin"};
  options.folder = testing::TempDir();
  options.descriptors = {{.ours = 1, .childs = 1}, {.ours = 2, .childs = 2}};
  auto child = Child::Start(options);
  EXPECT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(child->Wait(), 0) << source;
  std::ostringstream bytes;
  bytes << std::ifstream(base + ".so", std::ios::binary).rdbuf();
  return bytes.str();
}

constexpr char kKernel[] =
    "extern \"C\" void kiln_one(float* a, long n) {\n"
    "  for (long i = 0; i < n; ++i) a[i] = __builtin_expf(a[i]);\n"
    "  __builtin_memset(a + n, 0, n);\n}\n";

void ExpectRefused(const std::string& image, const std::string& why) {
  const absl::Status status = CheckSharedObject(image);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactCorrupt) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(CheckSharedObject, KernelsThatTakeMathAndMemoryArePassed) {
  EXPECT_TRUE(CheckSharedObject(Compiled(kKernel)).ok());
  EXPECT_TRUE(CheckSharedObject(Compiled(absl::StrCat(kKernel,
                                                      "static float t[4]; "
                                                      "float* p = t;")))
                  .ok());
}

TEST(CheckSharedObject, ConstructorsAreRefused) {
  ExpectRefused(
      Compiled(absl::StrCat(
          kKernel, "__attribute__((constructor)) void run() { asm(\"\"); }")),
      "entry 0x19");  // DT_INIT_ARRAY
  ExpectRefused(
      Compiled(absl::StrCat(
          kKernel, "__attribute__((destructor)) void run() { asm(\"\"); }")),
      "entry 0x1a");  // DT_FINI_ARRAY
  ExpectRefused(Compiled("extern \"C\" void _init() {}"), "entry 0xc");
}

TEST(CheckSharedObject, NeededLibrariesAndSearchPathsAreRefused) {
  ExpectRefused(Compiled(kKernel, {"-Wl,--no-as-needed", "-lm"}), "entry 0x1");
  ExpectRefused(Compiled(kKernel, {"-Wl,-rpath,/tmp"}), "entry 0x1d");
}

TEST(CheckSharedObject, WhatAsksForMoreThanMathIsRefused) {
  ExpectRefused(Compiled("extern \"C\" int system(const char*);\n"
                         "extern \"C\" void k() { system(\"id\"); }"),
                "it asks its process for system");
  ExpectRefused(Compiled("extern \"C\" int dlopen(const char*, int);\n"
                         "int (*p)(const char*, int) = dlopen;"),
                "it asks its process for dlopen");
}

TEST(CheckSharedObject, CodeThatChoosesItsFunctionAtLoadIsRefused) {
  ExpectRefused(Compiled("extern \"C\" { static void f() {}\n"
                         "static void* choose() { return (void*)f; }\n"
                         "void g() __attribute__((ifunc(\"choose\")));\n"
                         "void k() { g(); } }"),
                "");
}

TEST(CheckSharedObject, MemoryOfThreadsAndExecutableStacksAreRefused) {
  ExpectRefused(Compiled("thread_local int t; int k() { return ++t; }"), "");
  ExpectRefused(Compiled(kKernel, {"-Wl,-z,execstack"}), "executable stack");
}

TEST(CheckSharedObject, OtherFilesAreRefused) {
  ExpectRefused("", "0 bytes");
  ExpectRefused("not an object at all, however long one looks at it, is it?",
                "");
}

// Cut and changed at random: refused or passed, never read past the end.
TEST(CheckSharedObject, DamagedObjectsAreReadWithinTheirBytes) {
  const std::string image = Compiled(kKernel);
  std::mt19937 random(7);
  for (size_t bytes = 0; bytes < image.size(); bytes += 37) {
    // A copy of its own, so that a sanitizer sees the end.
    const std::vector<char> cut(image.begin(),
                                image.begin() + static_cast<int64_t>(bytes));
    CheckSharedObject({cut.data(), cut.size()}).IgnoreError();
  }
  for (int round = 0; round < 20000; ++round) {
    std::vector<char> changed(image.begin(), image.end());
    for (int i = 0; i < 3; ++i) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    CheckSharedObject({changed.data(), changed.size()}).IgnoreError();
  }
}

}  // namespace
}  // namespace kiln

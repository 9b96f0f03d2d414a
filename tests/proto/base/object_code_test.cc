#include "proto/base/object_code.h"

#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
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

// The loader looks in the process first, also for what the object defines.
TEST(CheckSharedObject, WhatItDefinesByTheNameOfAnothersIsRefused) {
  ExpectRefused(
      Compiled("extern \"C\" __attribute__((noinline))\n"
               "int system(const char*) { asm(\"\"); return 7; }\n"
               "extern \"C\" int kernel() { return system(\"id\"); }"),
      "it asks its process for system");
  ExpectRefused(Compiled("extern \"C\" int environ[9] = {1};\n"
                         "extern \"C\" int* kernel() { return environ; }"),
                "it asks its process for environ");
  // Hidden, it is the linker's: nobody is asked.
  EXPECT_EQ(CheckSharedObject(Compiled(
                "__attribute__((noinline, visibility(\"hidden\")))\n"
                "int system(const char*) { asm(\"\"); return 7; }\n"
                "extern \"C\" __attribute__((visibility(\"default\")))\n"
                "int kernel() { return system(\"id\"); }")),
            absl::OkStatus());
}

TEST(CheckSharedObject, ANameToBeFoundByIsRefused) {
  ExpectRefused(Compiled(kKernel, {"-Wl,-soname,libm.so.6"}), "entry 0xe");
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

// An object with one relocation, a relative one, to be changed.
class Patched {
 public:
  Patched()
      : bytes_(Compiled("static int x = 5;\n"
                        "static int* volatile p = &x;\n"
                        "extern \"C\" int kernel() { return *p; }")) {
    const auto header = At<Elf64_Ehdr>(0);
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      const uint64_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
      headers_[At<Elf64_Phdr>(at).p_type] = at;  // of PT_LOAD, the data
    }
    EXPECT_EQ(Segment(PT_LOAD).p_flags, uint32_t{PF_R | PF_W});
    EXPECT_EQ(Entry(DT_RELASZ), sizeof(Elf64_Rela));
    EXPECT_EQ(CheckSharedObject(bytes_), absl::OkStatus());
  }

  Elf64_Phdr Segment(uint32_t type) { return At<Elf64_Phdr>(headers_[type]); }
  void Put(const Elf64_Phdr& segment) {
    PutAt(headers_[segment.p_type], segment);
  }
  uint64_t Entry(int64_t tag) { return At<Elf64_Dyn>(Find(tag)).d_un.d_val; }
  void PutEntry(int64_t tag, uint64_t value) {
    PutAt(Find(tag), Elf64_Dyn{.d_tag = tag, .d_un = {.d_val = value}});
  }
  // Of the text, where an address is an offset.
  template <typename T>
  T At(uint64_t offset) {
    T record;
    std::memcpy(&record, bytes_.data() + offset, sizeof(T));
    return record;
  }
  template <typename T>
  void PutAt(uint64_t offset, const T& record) {
    std::memcpy(&bytes_[offset], &record, sizeof(T));
  }
  void PutRelocation(uint64_t offset, uint64_t info) {
    PutAt(Entry(DT_RELA),
          Elf64_Rela{.r_offset = offset, .r_info = info, .r_addend = 0x1234});
  }
  uint64_t RelocationOffset() {
    return At<Elf64_Rela>(Entry(DT_RELA)).r_offset;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  uint64_t Find(int64_t tag) {
    uint64_t at = Segment(PT_DYNAMIC).p_offset;
    while (At<Elf64_Dyn>(at).d_tag != tag) {
      EXPECT_NE(At<Elf64_Dyn>(at).d_tag, DT_NULL) << tag;
      at += sizeof(Elf64_Dyn);
    }
    return at;
  }

  std::string bytes_;
  std::map<uint32_t, uint64_t> headers_;
};

TEST(CheckSharedObject, RelocationsWriteIntoItsDataAlone) {
  Patched object;
  const Elf64_Phdr data = object.Segment(PT_LOAD);
  const Elf64_Phdr dynamic = object.Segment(PT_DYNAMIC);
  const uint64_t end = data.p_vaddr + data.p_memsz;
  for (const uint64_t good : {object.RelocationOffset(), end - 8}) {
    object.PutRelocation(good, R_X86_64_RELATIVE);
    EXPECT_EQ(CheckSharedObject(object.bytes()), absl::OkStatus());
  }
  for (const uint64_t bad :
       {uint64_t{0}, data.p_vaddr - 8, end - 7, end, uint64_t{1} << 40,
        ~uint64_t{0}, ~uint64_t{0} - 7, ~uint64_t{0} - (1 << 20),
        dynamic.p_vaddr - 7, dynamic.p_vaddr + 8,
        dynamic.p_vaddr + dynamic.p_memsz - 1}) {
    object.PutRelocation(bad, R_X86_64_RELATIVE);
    ExpectRefused(object.bytes(), "a relocation that writes to 0x");
  }
}

TEST(CheckSharedObject, SymbolZeroIsLookedAtAsOthersAre) {
  Patched object;
  object.PutRelocation(object.RelocationOffset(), R_X86_64_64);
  object.PutEntry(DT_RELACOUNT, 0);
  EXPECT_EQ(CheckSharedObject(object.bytes()), absl::OkStatus());
  const uint64_t at = object.Entry(DT_SYMTAB);
  object.PutAt(at, Elf64_Sym{.st_name = 1,
                             .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)});
  ExpectRefused(object.bytes(), "it asks its process for kernel");
  object.PutAt(at, Elf64_Sym{.st_info = STT_GNU_IFUNC, .st_shndx = 1});
  ExpectRefused(object.bytes(), "code is run for");
}

TEST(CheckSharedObject, TablesLieWhereNoRelocationWrites) {
  const std::vector<int64_t> tables = {DT_RELA, DT_STRTAB, DT_SYMTAB,
                                       DT_GNU_HASH};
  for (const int64_t table : tables) {
    for (const uint64_t place : {Patched().Segment(PT_LOAD).p_vaddr,
                                 uint64_t{1} << 33, ~uint64_t{0} - 3}) {
      Patched object;
      SCOPED_TRACE(absl::StrCat("entry ", table, " of ", place));
      object.PutEntry(table, place);
      ExpectRefused(object.bytes(), "");
    }
  }
}

TEST(CheckSharedObject, TablesEndWithinTheFile) {
  for (const auto& [tag, value] : {std::pair<int64_t, uint64_t>{DT_STRSZ, 0},
                                   {DT_STRSZ, 3},  // ends within a name
                                   {DT_STRSZ, 1 << 20},
                                   {DT_STRSZ, ~uint64_t{0}},
                                   {DT_RELASZ, 240000},
                                   {DT_RELASZ, ~uint64_t{0} - 15},
                                   {DT_RELACOUNT, 2}}) {
    Patched object;
    object.PutEntry(tag, value);
    ExpectRefused(object.bytes(), "");
  }
}

TEST(CheckSharedObject, UnsoundHashTablesAreRefused) {
  // Buckets, the first symbol, words of the filter.
  for (const auto& [word, value] : {std::pair<int, uint32_t>{0, 0},
                                    {0, ~uint32_t{0}},
                                    {1, 1 << 20},
                                    {2, 0},
                                    {2, 3},
                                    {2, uint32_t{1} << 31}}) {
    Patched object;
    object.PutAt(object.Entry(DT_GNU_HASH) + word * sizeof(uint32_t), value);
    ExpectRefused(object.bytes(), "a hash table of symbols that is unsound");
  }
}

TEST(CheckSharedObject, ProtectsNoPagesButItsOwn) {
  Patched object;
  Elf64_Phdr protects = object.Segment(PT_GNU_RELRO);
  protects.p_vaddr = uint64_t{1} << 30;
  object.Put(protects);
  ExpectRefused(object.bytes(), "that is not inside a loaded segment");
  protects.p_vaddr = 0;  // its text
  object.Put(protects);
  ExpectRefused(object.bytes(), "that is not inside a loaded segment");
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

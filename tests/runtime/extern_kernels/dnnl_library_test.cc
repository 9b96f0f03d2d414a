#include "runtime/extern_kernels/dnnl_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

constexpr int64_t kSize = 512;

// Loads a copy of libgomp that has another name, for all of the process to
// share: as PyTorch brings one of its own. Threads of its loops: four.
void ShareAnotherOpenMp() {
  ASSERT_EQ(setenv("OMP_NUM_THREADS", "4", 1), 0);
  void* const own = dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(own, nullptr) << dlerror();
  link_map* where = nullptr;
  ASSERT_EQ(dlinfo(own, RTLD_DI_LINKMAP, &where), 0);
  std::ifstream file(where->l_name, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const std::string copy = testing::TempDir() + "/libother.so.1";
  std::ofstream(copy, std::ios::binary)
      << absl::StrReplaceAll(bytes, {{"libgomp.so.1", "libother.so1"}});
  ASSERT_NE(dlopen(copy.c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
}

int64_t NumThreads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

void Multiply(const DnnlLibrary& library) {
  const std::vector<float> ones(kSize * kSize, 1.0f);
  std::vector<float> product(kSize * kSize);
  ASSERT_EQ(library.dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1.0f, ones.data(),
                               kSize, ones.data(), kSize, 0.0f, product.data(),
                               kSize),
            dnnl_success);
  EXPECT_EQ(product.front(), kSize);
  EXPECT_EQ(product.back(), kSize);
}

TEST(DnnlLibrary, ASingleThreadIsOneBesideAnotherOpenMpToo) {
  ASSERT_NO_FATAL_FAILURE(ShareAnotherOpenMp());
  const auto library = DnnlLibrary::Open({});
  ASSERT_TRUE(library.ok()) << library.status();
  const int64_t before = NumThreads();
  {
    const DnnlLibrary::SingleThread alone(**library);
    Multiply(**library);
    EXPECT_EQ(NumThreads(), before);
  }
  // What was lent is given back: the same product has a team now.
  Multiply(**library);
  EXPECT_EQ(NumThreads(), before + 3);
}

}  // namespace
}  // namespace kiln

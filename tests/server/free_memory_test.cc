#include "server/free_memory.h"

#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/sanitized.h"

namespace kiln {
namespace {

// The sanitizers have an allocator of their own.
constexpr int64_t kExpectedBytes = kSanitized ? 0 : 64 << 20;

TEST(FreeMemory, IsGivenBackAlsoBelowWhatIsUsed) {
  constexpr size_t kPieceBytes = 32 << 10;
  std::vector<std::unique_ptr<char[]>> pieces;
  for (int i = 0; i < 4096; ++i) {
    pieces.push_back(std::make_unique<char[]>(kPieceBytes));
    memset(pieces.back().get(), i, kPieceBytes);
  }
  // The last one keeps what lies below it from being given back by itself.
  pieces.erase(pieces.begin(), pieces.end() - 1);
  EXPECT_GE(ReturnFreeMemory(), kExpectedBytes);
}

}  // namespace
}  // namespace kiln

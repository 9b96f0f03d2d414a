#include "client/corpus_runner/progress_line.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace kiln {
namespace {

// A file in memory.
class Written {
 public:
  Written() : file_(open_memstream(&text_, &length_)) {}
  ~Written() {
    std::fclose(file_);
    std::free(text_);
  }
  std::FILE* file() const { return file_; }
  std::string text() const {
    std::fflush(file_);
    return std::string(text_, length_);
  }

 private:
  char* text_ = nullptr;
  size_t length_ = 0;
  std::FILE* const file_;
};

TEST(ProgressLine, ALogHasALineForEachChangeAtMostTwoASecond) {
  Written written;
  ProgressLine line(written.file(), ProgressLine::Place::kLog);
  const SteadyTime start = SteadyNow();
  line.Show("gpt2.fwd0", "queued", start);
  line.Show("gpt2.fwd0", "planning", After(start, absl::Milliseconds(100)));
  line.Show("gpt2.bwd0", "queued", After(start, absl::Milliseconds(200)));
  line.Show("gpt2.fwd0", "building, 3 of 8 kernels",
            After(start, absl::Milliseconds(900)));
  EXPECT_EQ(written.text(),
            "  gpt2.fwd0: queued (0.0 s)\n"
            "  gpt2.bwd0: queued (0.0 s)\n"
            "  gpt2.fwd0: building, 3 of 8 kernels (0.9 s)\n");
}

TEST(ProgressLine, ATerminalHasOneLineThatIsEmptyAtTheEnd) {
  Written written;
  {
    ProgressLine line(written.file(), ProgressLine::Place::kTerminal);
    const SteadyTime now = SteadyNow();
    line.Show("a", "queued", now);
    line.Show("a", "planning", now);
  }
  EXPECT_EQ(written.text(),
            "\r\033[K  a: queued (0.0 s)\r\033[K  a: planning (0.0 s)\r\033[K");
}

}  // namespace
}  // namespace kiln

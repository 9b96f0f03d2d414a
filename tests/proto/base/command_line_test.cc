#include "proto/base/command_line.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

std::optional<int> Parse(CommandLine& line, std::vector<const char*> words) {
  words.insert(words.begin(), "program");
  return line.Parse(static_cast<int>(words.size()), words.data());
}

CommandLine::Description Description() {
  return {.program = "program", .what = "Does it.", .version = "program 1"};
}

TEST(CommandLine, ValuesGoWhereTheyWereTold) {
  CommandLine line(Description());
  std::string text = "as it was";
  std::optional<int64_t> count;
  std::vector<std::string> names;
  std::vector<std::string> words;
  bool flag = false;
  line.arguments().Option("--text", text, "");
  line.arguments().Option("-n,--count", count, "");
  line.arguments().Option("--name", names, "");
  line.arguments().Words("WORDS", words, Arguments::Due::kOptional, "");
  line.arguments().Flag("--flag", flag, "");
  EXPECT_EQ(Parse(line, {"--name", "a", "w", "-n", "3", "--name", "b", "--flag",
                         "v"}),
            std::nullopt);
  EXPECT_EQ(text, "as it was");
  EXPECT_EQ(count, 3);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(words, (std::vector<std::string>{"w", "v"}));
  EXPECT_TRUE(flag);
}

TEST(CommandLine, HelpAndVersionEndWithZeroAndFaultsWithTwo) {
  for (const auto& [word, code] : {std::pair("--help", 0),
                                   {"-h", 0},
                                   {"--version", 0},
                                   {"--nosuch", 2},
                                   {"word", 2}}) {
    CommandLine line(Description());
    EXPECT_EQ(Parse(line, {word}), code) << word;
  }
}

TEST(CommandLine, AChoiceIsOneOfItsWords) {
  for (const auto& [word, due] : {std::pair("json", std::optional<int>()),
                                  {"yaml", std::optional<int>(2)}}) {
    CommandLine line(Description());
    std::string format = "table";
    line.arguments().Choice("-o", format, {"table", "json"}, "");
    EXPECT_EQ(Parse(line, {"-o", word}), due) << word;
  }
}

TEST(CommandLine, ExactlyOneCommandIsDueAndSharesTheProgramsOptions) {
  std::string socket;
  std::string key;
  CommandLine line(Description());
  line.arguments().Option("--socket", socket, "");
  line.AddCommand("show", "").Word("KEY", key, Arguments::Due::kRequired, "");
  line.AddCommand("ls", "");
  EXPECT_EQ(Parse(line, {"show", "9c41", "--socket", "s"}), std::nullopt);
  EXPECT_EQ(line.command(), "show");
  EXPECT_EQ(key, "9c41");
  EXPECT_EQ(socket, "s");
  EXPECT_EQ(line.Commands().size(), 2);
  EXPECT_EQ(Parse(line, {}), 2);
  EXPECT_EQ(Parse(line, {"show"}), 2);
}

TEST(CommandLine, AFaultIsToldInOneLineWithItsReason) {
  for (const auto& [words, due] :
       {std::pair(std::vector<const char*>{"--nosuch"},
                  "program: BAD_OPTION: .*--nosuch.*"),
        {{"--count", "many"}, "program: BAD_OPTION: .*--count.*many.*"},
        {{"--count"}, "program: BAD_OPTION: .*--count.*"}}) {
    CommandLine line(Description());
    std::optional<int64_t> count;
    line.arguments().Option("--count", count, "");
    testing::internal::CaptureStderr();
    EXPECT_EQ(Parse(line, words), 2);
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_THAT(told,
                testing::MatchesRegex(std::string(due) + "; see --help\n"));
    EXPECT_EQ(told.find('\n'), told.size() - 1) << told;
  }
}

TEST(CommandLine, AWordThatIsNoCommandIsNamed) {
  CommandLine line(Description());
  line.AddCommand("show", "");
  testing::internal::CaptureStderr();
  EXPECT_EQ(Parse(line, {"bogus"}), 2);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("bogus: no such command"));
  EXPECT_EQ(Parse(line, {"--help"}), 0);
}

}  // namespace
}  // namespace kiln

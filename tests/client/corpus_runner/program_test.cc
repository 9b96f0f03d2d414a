// The program kiln-corpus: what it refuses, before any case is run.
#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/run_program.h"

namespace kiln {
namespace {

// A file without a case, and no daemon to be asked.
ProgramRun Corpus(std::vector<std::string> words) {
  const std::string empty = testing::TempDir() + "/empty.jsonl";
  std::ofstream{empty};
  words.insert(words.begin(), {"client/corpus_runner/kiln-corpus", empty});
  return RunProgram(words);
}

TEST(KilnCorpus, FilesWithoutACaseAreAnError) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--local"},
        std::vector<std::string>{"--local", "--case", "nosuch"}}) {
    const ProgramRun run = Corpus(words);
    EXPECT_EQ(run.exit_code, 1) << run.out;
    EXPECT_NE(run.err.find("no case"), std::string::npos) << run.err;
  }
}

TEST(KilnCorpus, AReportThatCannotBeWrittenIsAnError) {
  const ProgramRun run = Corpus({"--local", "--report", "/nowhere/report"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("--report: /nowhere/report"), std::string::npos)
      << run.err;
}

TEST(KilnCorpus, OptionsThatMeanNothingAreRefusedByName) {
  const std::vector<std::vector<std::string>> lines = {
      {"--jobs", "-5"},
      {"--threads", "-5"},
      {"--threads", "100000"},
      {"--repeat", "-1"},
      {"--worker-env", "FOO"},
      {"--library-folder", "/nowhere"},
      {"--local", "--daemon", "/nowhere/sock"},
      {"--tcp", "127.0.0.1:1", "--daemon", "/nowhere/sock"},
      {"--token-file", "/nowhere/token"},
      {"--tls-certificate", "/nowhere/crt"},
  };
  for (const std::vector<std::string>& words : lines) {
    const ProgramRun run = Corpus(words);
    EXPECT_EQ(run.exit_code, 2) << words[0];
    EXPECT_NE(run.err.find(words[0]), std::string::npos) << run.err;
  }
}

TEST(KilnCorpus, AnAddressInThePlaceOfASocketIsRefusedWithTheOptionForIt) {
  const ProgramRun run = Corpus({"--daemon", "127.0.0.1:7117"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("--daemon: found 127.0.0.1:7117"), std::string::npos)
      << run.err;
  EXPECT_NE(run.err.find("--tcp takes HOST:PORT"), std::string::npos)
      << run.err;
}

TEST(KilnCorpus, ADaemonBehindTcpTakesItsKey) {
  const ProgramRun run = Corpus({"--tcp", "127.0.0.1:7117"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("compilectl keys list"), std::string::npos) << run.err;
}

// kilnd is none, so that no daemon starts.
TEST(KilnCorpus, SaysThatItReadsNoAddressFromTheEnvironment) {
  setenv("KILN_ADDR", "unix:/nowhere/kilnd.sock", 1);
  const ProgramRun own = Corpus({"--kilnd", "/nowhere/kilnd"});
  const ProgramRun local = Corpus({"--local"});
  unsetenv("KILN_ADDR");
  EXPECT_NE(own.err.find("KILN_ADDR is not read"), std::string::npos)
      << own.err;
  EXPECT_EQ(local.err.find("KILN_ADDR"), std::string::npos) << local.err;
}

}  // namespace
}  // namespace kiln

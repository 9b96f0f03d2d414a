// The program as people and scripts use it: exit codes, what goes to standard
// output and what to standard error, against a whole daemon.

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/compilectl/relu_case.h"
#include "tests/client/compilectl/run_compilectl.h"
#include "tests/support/run_program.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

using Words = std::vector<std::string>;
using Json = nlohmann::json;

class Compilectl : public testing::Test {
 protected:
  // Three entries, for one target.
  void SetUp() override {
    for (const char* op : {"fake.salt.1", "fake.salt.2", "fake.salt.3"}) {
      const CompileAnswer compiled =
          daemon_.client().Compile(FakeRequest({op}));
      ASSERT_TRUE(compiled.status.ok()) << compiled.status;
    }
  }

  ProgramRun Ask(Words words) {
    words.insert(words.end(), {"--socket", daemon_.config().socket});
    return RunCompilectl(std::move(words));
  }

  // The document that a command prints for programs.
  Json AskJson(Words words) {
    words.insert(words.end(), {"-o", "json"});
    const ProgramRun run = Ask(words);
    EXPECT_EQ(run.err, "") << words[0];
    const Json document = Json::parse(run.out, nullptr, /*throw=*/false);
    EXPECT_FALSE(document.is_discarded()) << words[0] << ":\n" << run.out;
    return document;
  }

  // The processes of the workers, all started: one that is not has the pid 0,
  // which for kill() is everybody here.
  std::vector<pid_t> StartedWorkers() {
    for (;;) {
      const Json said = AskJson({"workers"});
      std::vector<pid_t> pids;
      for (const Json& worker : said["workers"]) {
        pids.push_back(worker["pid"].get<pid_t>());
      }
      if (std::find(pids.begin(), pids.end(), 0) == pids.end()) return pids;
      absl::SleepFor(absl::Milliseconds(10));
    }
  }

  size_t Entries() { return AskJson({"ls"})["entries"].size(); }

  TestDaemon daemon_;
};

TEST_F(Compilectl, WhatIsDoneEndsWithZeroAndSaysNothingToStandardError) {
  for (const char* command : {"stats", "jobs", "workers", "ls", "version"}) {
    const ProgramRun run = Ask({command});
    EXPECT_EQ(run.exit_code, 0) << command;
    EXPECT_NE(run.out, "") << command;
    EXPECT_EQ(run.err, "") << command;
  }
  EXPECT_EQ(RunCompilectl({"--help"}).exit_code, 0);
  EXPECT_EQ(RunCompilectl({"purge", "--help"}).exit_code, 0);
}

TEST_F(Compilectl, WhatIsRefusedEndsWithOneAndNamesTheReason) {
  const ProgramRun unknown = Ask({"show", "ffffffffffff"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_EQ(unknown.out, "");
  EXPECT_EQ(unknown.err.find("compilectl: NOT_FOUND: "), 0) << unknown.err;
  const ProgramRun nobody =
      RunCompilectl({"stats", "--socket", "/nowhere/kilnd.sock"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_EQ(nobody.err.find("compilectl: UNAVAILABLE: "), 0) << nobody.err;
}

TEST_F(Compilectl, WhatIsUsedWronglyEndsWithTwo) {
  const std::vector<Words> lines = {{},
                                    {"nosuch"},
                                    {"stats", "--nosuch"},
                                    {"stats", "-o", "yaml"},
                                    {"show"},
                                    {"explain"},
                                    {"ls", "--limit", "few"},
                                    {"ls", "--limit", "-1"},
                                    {"purge"},
                                    {"purge", "--older-than", "a week"},
                                    {"purge", "--device", "foo"},
                                    {"stats", "--timeout", "nan"},
                                    {"stats", "--timeout", "1e300"},
                                    {"version", "--timeout", "inf"},
                                    {"doctor", "--timeout", "0"},
                                    {"tune"},
                                    {"completion", "fish"},
                                    {"ls", "xyz"},
                                    {"purge", "9c41g"},
                                    {"tokens", "revoke"},
                                    {"tokens", "add"},
                                    {"tokens", "add", "x", "--for", "0s"},
                                    {"quarantine", "--clear", "zz"},
                                    {"show", ""},
                                    {"explain", ""}};
  for (const Words& line : lines) {
    const ProgramRun run = Ask(line);
    EXPECT_EQ(run.exit_code, 2) << testing::PrintToString(line) << run.err;
    EXPECT_EQ(run.out, "") << testing::PrintToString(line);
    EXPECT_NE(run.err, "") << testing::PrintToString(line);
  }
  EXPECT_EQ(Ask({"ls", "xyz"}).err,
            "compilectl: BAD_OPTION: kilnd: key: found \"xyz\", expected the "
            "first of its 64 digits, 0 to 9 and a to f\n");
  EXPECT_EQ(Ask({"quarantine", "--clear", "zz"}).err,
            "compilectl: BAD_OPTION: kilnd: key: found \"zz\", expected the "
            "first of its 64 digits, 0 to 9 and a to f\n");
  EXPECT_EQ(Ask({"tokens", "add", "x", "--for", "0s"}).err,
            "compilectl: BAD_OPTION: kilnd: token x: found a life of 0, "
            "expected more than 0 and at most 366d\n");
  EXPECT_EQ(
      Ask({"tokens", "revoke"}).err,
      "compilectl: BAD_OPTION: tokens revoke: no NAME was given, expected "
      "the name of the token\n");
  const ProgramRun reason = Ask({"purge"});
  EXPECT_EQ(reason.err.find("compilectl: BAD_OPTION: "), 0) << reason.err;
  EXPECT_EQ(Ask({"show", ""}).err,
            "compilectl: BAD_OPTION: show: the key is empty; give its first "
            "digits, which compilectl ls lists\n");
  EXPECT_EQ(
      RunCompilectl({"bogus"}).err,
      "compilectl: BAD_OPTION: bogus: no such command; --help lists them\n");
}

TEST(CompilectlAddress, NeedsAHostAndAPort) {
  for (const char* bad : {"127.0.0.1", "127.0.0.1:0", "here:x"}) {
    const ProgramRun run = RunCompilectl(
        {"stats", "--tcp", bad, "--public-key", std::string(64, 'a')});
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_EQ(run.err.find("compilectl: BAD_OPTION: --tcp: found \"" +
                           std::string(bad) + "\", expected an address like"),
              0)
        << run.err;
  }
}

TEST_F(Compilectl, WhatCannotBeExplainedIsNamed) {
  for (const char* subject : {"/nonexist", "/nonexist.jsonl:some.case"}) {
    const ProgramRun run = Ask({"explain", subject});
    EXPECT_EQ(run.exit_code, 1) << subject;
    EXPECT_NE(run.err.find("/nonexist"), std::string::npos) << run.err;
    EXPECT_NE(run.err.find(": no such file"), std::string::npos) << run.err;
  }
  const ProgramRun other = Ask({"explain", kCompilectl});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("expected a key's digits or FILE.jsonl"),
            std::string::npos)
      << other.err;
}

TEST_F(Compilectl, EveryCommandHasADocumentForPrograms) {
  EXPECT_EQ(AskJson({"stats"})["counters"]["jobs.done"], 3);
  EXPECT_TRUE(AskJson({"jobs"})["jobs"].empty());
  EXPECT_EQ(AskJson({"workers"})["workers"].size(), 2);
  const Json entries = AskJson({"ls"})["entries"];
  ASSERT_EQ(entries.size(), 3);
  const std::string key = entries[0]["key"];
  EXPECT_EQ(AskJson({"show", key})["key"], key);
  const Json trace = AskJson({"show", key, "--trace"});
  EXPECT_EQ(trace["otherData"]["key"], key);
  std::vector<std::string> phases;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] == "job")
      phases.push_back(event["name"]);
  }
  EXPECT_EQ(phases,
            std::vector<std::string>({"plan", "build", "assemble and sign"}));
  EXPECT_EQ(AskJson({"explain", key})["found"], true);
  EXPECT_EQ(AskJson({"purge", "--all", "--dry-run"})["entries"], 3);
  EXPECT_NE(AskJson({"version"})["kilnd"], "");
  EXPECT_FALSE(AskJson({"doctor"})["findings"].empty());
  EXPECT_EQ(AskJson({"drain"})["draining"], true);
}

TEST_F(Compilectl, AGraphThatIsNotThereIsExplainedByTheNearestEntry) {
  const std::string graph = WriteReluCase(testing::TempDir());
  EXPECT_EQ(
      Ask({"explain", graph, "--arch", "sm_90"}).err,
      "compilectl: BAD_TARGET: --arch sm_90: needs --device cuda; for a CPU "
      "use a level like x86-64-v3\n");
  const Json document = AskJson({"explain", graph, "--arch", "x86-64-v3"});
  EXPECT_EQ(document["found"], false);
  EXPECT_EQ(document["nearest"]["target"], "cpu x86-64-v3");
  EXPECT_EQ(document["first_difference"], "graph");
  const ProgramRun table = Ask({"explain", graph, "--arch", "x86-64-v3"});
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_NE(table.out.find("not found; nearest is "), std::string::npos);
  // A key is a digest: of one that nobody has nothing can be told.
  EXPECT_EQ(Ask({"explain", std::string(64, '0')}).exit_code, 1);
}

TEST_F(Compilectl, TheWholeCacheIsVerifiedScrubbedAndCompacted) {
  for (const char* command : {"verify", "scrub", "compact"}) {
    const ProgramRun run = Ask({command});
    EXPECT_EQ(run.exit_code, 0) << command << run.err;
    EXPECT_EQ(run.err, "") << command;
    EXPECT_NE(run.out, "") << command;
    EXPECT_EQ(AskJson({command})["task"], command);
  }
  // An entry, its index, its graph and its unit, of each of three.
  EXPECT_GE(AskJson({"verify"})["records"], 10);
  EXPECT_EQ(AskJson({"verify"})["damaged"], 0);
  const ProgramRun none = Ask({"scrub", "--stop"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(none.err, "compilectl: NOT_FOUND: scrub: not under way\n");
}

TEST_F(Compilectl, EntriesArePinnedByTheirKey) {
  const std::string key = AskJson({"ls"})["entries"][0]["key"];
  EXPECT_EQ(Ask({"pin", key}).out, "pinned 1 entry\n");
  EXPECT_EQ(AskJson({"ls", key})["entries"][0]["pinned"], true);
  EXPECT_EQ(AskJson({"unpin", key})["entries"][0]["pinned"], false);
  EXPECT_EQ(Ask({"pin"}).exit_code, 2);
  EXPECT_EQ(Ask({"pin", "ffff0000ffff"}).exit_code, 1);
}

TEST_F(Compilectl, ADryRunOfAPurgeRemovesNothing) {
  EXPECT_EQ(Ask({"purge", "--all", "--dry-run"}).exit_code, 0);
  EXPECT_EQ(Entries(), 3);
}

TEST_F(Compilectl, PurgeTakesWhatItIsToldByKeyByDeviceAndByAge) {
  EXPECT_EQ(AskJson({"purge", "--older-than", "7d"})["entries"], 0);
  EXPECT_EQ(AskJson({"purge", "--device", "cuda"})["entries"], 0);
  EXPECT_EQ(Entries(), 3);
  const std::string key = AskJson({"ls"})["entries"][0]["key"];
  EXPECT_EQ(AskJson({"purge", key})["entries"], 1);
  EXPECT_EQ(Entries(), 2);
  // Nothing here was used within the last millisecond.
  EXPECT_EQ(
      AskJson({"purge", "--device", "cpu", "--older-than", "1ms"})["entries"],
      2);
  EXPECT_EQ(Entries(), 0);
}

TEST_F(Compilectl, ABigPurgeWithoutATerminalWantsYes) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(daemon_.client()
                    .Compile(FakeRequest({"fake.units." + std::to_string(i)}))
                    .status.ok());
  }
  const ProgramRun refused = Ask({"purge", "--all"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("--yes"), std::string::npos) << refused.err;
  EXPECT_EQ(Entries(), 23);
  EXPECT_EQ(Ask({"purge", "--all", "--yes"}).exit_code, 0);
  EXPECT_EQ(Entries(), 0);
}

// A graph with one kernel to tune, by the fake worker.
std::string TunableCase() {
  return WriteReluCase(testing::TempDir(), "fake.row.points/key");
}

TEST_F(Compilectl, TuneSaysWhichChoiceWon) {
  const Json document = AskJson({"tune", TunableCase(), "--arch", "x86-64-v3"});
  ASSERT_EQ(document["kernels"].size(), 1);
  const Json& kernel = document["kernels"][0];
  EXPECT_EQ(kernel["key"], "points/key");
  EXPECT_EQ(kernel["choice"], "rows=4");
  EXPECT_EQ(kernel["choices"].size(), 2);
  const ProgramRun run = Ask({"tune", TunableCase(), "--arch", "x86-64-v3"});
  EXPECT_NE(run.out.find("winner"), std::string::npos) << run.out;
}

TEST_F(Compilectl, TuneNamesTheFileThatIsNone) {
  const ProgramRun key = Ask({"tune", "9c41d2"});
  EXPECT_EQ(key.exit_code, 2);
  EXPECT_NE(key.err.find("tune: found \"9c41d2\""), std::string::npos)
      << key.err;
  const ProgramRun absent = Ask({"tune", "/nonexist.jsonl"});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_NE(absent.err.find("/nonexist"), std::string::npos) << absent.err;
}

TEST_F(Compilectl, TuneThatOutlastsItsTimeoutSaysSo) {
  const std::vector<pid_t> stopped = StartedWorkers();
  for (const pid_t pid : stopped) ASSERT_EQ(kill(pid, SIGSTOP), 0);
  const ProgramRun run =
      Ask({"tune", TunableCase(), "--arch", "x86-64-v3", "--timeout", "1"});
  for (const pid_t pid : stopped) kill(pid, SIGCONT);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.err.find("compilectl: DEADLINE_EXCEEDED: tune: not measured "
                         "within 1s; the daemon goes on"),
            0)
      << run.err;
}

// The first finding of doctor about a subject.
Json FindingIn(const Json& document, const std::string& subject) {
  for (const Json& finding : document["findings"]) {
    if (finding["subject"] == subject) return finding;
  }
  return Json::object({{"found", ""}, {"health", ""}, {"remedy", ""}});
}

// The finding of doctor about the data folder.
Json DataFolderOf(const Json& document) {
  for (const Json& finding : document["findings"]) {
    if (finding["subject"] == "data folder") return finding;
  }
  return nullptr;
}

TEST_F(Compilectl, DoctorLooksAtTheFolderOfTheDaemonThatItAsks) {
  const std::string folder = daemon_.config().data_folder;
  EXPECT_EQ(AskJson({"stats"})["data_folder"], folder);
  const ProgramRun well = Ask({"doctor"});
  EXPECT_EQ(well.exit_code, 0) << well.out;
  Json finding = DataFolderOf(AskJson({"doctor"}));
  EXPECT_EQ(finding["health"], "good");
  EXPECT_EQ(finding["found"], folder);
  std::filesystem::rename(folder, folder + ".away");
  finding = DataFolderOf(AskJson({"doctor"}));
  EXPECT_EQ(finding["health"], "BAD");
  EXPECT_EQ(finding["found"], folder + ": removed under a daemon that runs");
  std::filesystem::rename(folder + ".away", folder);
}

TEST_F(Compilectl, DoctorSaysThatTheWorkersHaveNoHostCompiler) {
  daemon_.ReplaceToolchain("none");
  daemon_.Restart();
  const ProgramRun run = Ask({"doctor", "-o", "json"});
  EXPECT_EQ(run.exit_code, 1);
  const Json document = Json::parse(run.out, nullptr, /*throw=*/false);
  EXPECT_EQ(FindingIn(document, "host compiler")["health"], "BAD");
  EXPECT_EQ(FindingIn(document, "host compiler")["remedy"],
            "apt-get install g++  # or deploy/install_deps.sh");
  EXPECT_EQ(FindingIn(document, "NVRTC")["health"], "absent");
  EXPECT_EQ(FindingIn(document, "NVRTC")["remedy"],
            "deploy/install_deps.sh, then ./kiln daemon  # or start it with "
            "KILN_CUDA_LIBRARY_PATH=FOLDER");
}

// A compiler that nobody would look for, and no NVRTC: what doctor says of them is
// what the daemon's workers found, whatever its own environment; without a daemon
// what a worker finds that is started in its environment.
TEST(CompilectlDoctor, LooksWhereWorkersLook) {
  const std::string compiler = "KILN_HOST_CC=/usr/bin/c++";
  const std::string nvrtc = "KILN_NVRTC=/nowhere";
  TestDaemon daemon([&](Config& config) {
    config.worker_program =
        std::filesystem::absolute("compiler/kiln-worker").string();
    config.worker_args.clear();
    config.worker_env = {compiler, nvrtc};
  });
  const std::string program = std::filesystem::absolute(kCompilectl).string();
  const ShortFolder folder;
  const std::vector<Words> asked = {
      {"env", "KILN_HOST_CC=/nowhere/g++", program, "doctor", "-o", "json",
       "--socket", daemon.config().socket},
      {"env", compiler, nvrtc, program, "doctor", "-o", "json", "--socket",
       folder.path() + "/none"}};
  for (const Words& words : asked) {
    const ProgramRun run = RunProgram(words);
    const Json said = Json::parse(run.out, nullptr, /*throw=*/false);
    const std::string host = FindingIn(said, "host compiler")["found"];
    EXPECT_EQ(host.substr(0, host.find(',')), "/usr/bin/c++") << run.out;
    EXPECT_NE(
        FindingIn(said, "NVRTC")["found"].get<std::string>().find("/nowhere"),
        std::string::npos)
        << run.out;
  }
}

TEST(CompilectlDoctor, ASocketThatAnAccessRuleOpensIsGood) {
  TestDaemon daemon([](Config& config) {
    config.access = {{"uid:12345", {Role::kReader, {"*"}}}};
  });
  const ProgramRun run = RunCompilectl(
      {"doctor", "-o", "json", "--socket", daemon.config().socket});
  EXPECT_EQ(FindingIn(Json::parse(run.out, nullptr, /*throw=*/false),
                      "socket")["health"],
            "good")
      << run.out;
}

// What is said is ours alone: gRPC's own log is off.
TEST(CompilectlErrors, AreOneLineAlsoWhereNobodyListens) {
  const std::string key(64, 'a');
  const ProgramRun run =
      RunCompilectl({"stats", "--tcp", "127.0.0.1:1", "--public-key", key});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.err,
            "compilectl: UNAVAILABLE: kilnd: 127.0.0.1:1: Connection refused; "
            "no daemon listens there: start one, or check the address\n");
  const ProgramRun version =
      RunCompilectl({"version", "--tcp", "127.0.0.1:1", "--public-key", key});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_NE(version.out.find("\nkilnd      unknown: "), std::string::npos)
      << version.out;
}

// Without a daemon: the folder that kilnd would take.
TEST_F(Compilectl, DoctorEndsWithOneWhenSomethingIsWrong) {
  daemon_.Stop();
  const ProgramRun gone = Ask({"doctor"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_NE(gone.out.find("BAD"), std::string::npos);
  const std::string state = testing::TempDir() + "/state";
  const ProgramRun run =
      RunProgram({"env", "XDG_STATE_HOME=" + state,
                  std::filesystem::absolute(kCompilectl).string(), "doctor",
                  "-o", "json", "--socket", daemon_.config().socket});
  const Json finding = DataFolderOf(Json::parse(run.out, nullptr, false));
  EXPECT_EQ(finding["found"], state + "/kiln: not there yet");
  EXPECT_EQ(finding["health"], "absent");
}

// What bash offers for the last of `words`.
std::string Completed(const std::string& words) {
  const std::string program = std::filesystem::absolute(kCompilectl).string();
  return RunProgram({"bash", "-c",
                     "source <(" + program + " completion bash); COMP_WORDS=(" +
                         words +
                         "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "
                         "_compilectl; echo -n \"${COMPREPLY[*]}\""})
      .out;
}

TEST(Completion, BashSourcesTheScriptAndCompletesCommandsAndOptions) {
  EXPECT_EQ(Completed("compilectl pu"), "purge");
  EXPECT_EQ(Completed("compilectl ''").find("stats "), 0);
  EXPECT_EQ(Completed("compilectl purge --old"), "--older-than");
  EXPECT_EQ(Completed("compilectl purge --sock"), "--socket");
  EXPECT_EQ(Completed("compilectl --timeout 3 show --ker"), "--kernels");
}

}  // namespace
}  // namespace kiln

#include "client/compilectl/commands.h"

#include "client/compilectl/doctor.h"
#include "gtest/gtest.h"
#include "tests/client/compilectl/relu_case.h"
#include "tests/support/test_daemon.h"

// The commands against a whole daemon with one entry in its cache.

namespace kiln {
namespace {

class Commands : public testing::Test {
 protected:
  void SetUp() override {
    address_.socket = daemon_.config().socket;
    const CompileAnswer compiled =
        daemon_.client().Compile(FakeRequest({"fake.units.2"}));
    ASSERT_TRUE(compiled.status.ok()) << compiled.status;
    auto channel = OpenDaemonChannel(address_);
    ASSERT_TRUE(channel.ok()) << channel.status();
    admin_.emplace(*std::move(channel), absl::Seconds(30));
  }

  // The text of a command that must work.
  static std::string Text(const absl::StatusOr<std::string>& outcome) {
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *outcome : "";
  }

  static bool Has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
    return text.find(part) != std::string::npos;
  }

  absl::StatusOr<std::string> Purge(PurgeOptions options, bool answer) {
    return PurgeCommand(
        *admin_, options,
        [this, answer](const std::string&) {
          ++asked_;
          return answer;
        },
        OutputFormat::kTable);
  }

  std::string List() {
    return Text(ListCommand(*admin_, "", "", 0, OutputFormat::kTable));
  }

  TestDaemon daemon_;
  DaemonAddress address_;
  std::optional<AdminClient> admin_;
  int asked_ = 0;
};

TEST_F(Commands, StatsCountsTheCompile) {
  Has(Text(StatsCommand(*admin_, OutputFormat::kTable)), "jobs.done");
  Has(Text(StatsCommand(*admin_, OutputFormat::kJson)), "\"jobs.done\": 1");
}

TEST_F(Commands, JobsAndWorkers) {
  EXPECT_EQ(Text(JobsCommand(*admin_, OutputFormat::kTable)), "no jobs\n");
  Has(Text(WorkersCommand(*admin_, OutputFormat::kTable)), "toolchain ");
  Has(Text(WorkersCommand(*admin_, OutputFormat::kJson)), "\"pid\": ");
  Has(Text(WorkersCommand(*admin_, OutputFormat::kTable)), "SANDBOX");
}

TEST_F(Commands, QuarantineIsListedAndCleared) {
  EXPECT_EQ(Text(QuarantineCommand(*admin_, "", false, OutputFormat::kTable)),
            "nothing in quarantine\n");
  const auto died = daemon_.client().Compile(FakeRequest({"fake.die.any"}));
  EXPECT_FALSE(died.status.ok());
  Has(Text(QuarantineCommand(*admin_, "", false, OutputFormat::kTable)),
      "dies as told");
  Has(Text(QuarantineCommand(*admin_, "", true, OutputFormat::kTable)),
      "cleared 1\nnothing in quarantine");
}

TEST_F(Commands, ListShowsTheEntryAndItsTarget) {
  Has(List(), "cpu x86-64-v3");
  Has(Text(ListCommand(*admin_, "", "", 0, OutputFormat::kJson)),
      "\"target\": \"cpu x86-64-v3\"");
}

TEST_F(Commands, ListTellsEqualGraphsOfTwoTeamsApart) {
  for (const char* team : {"team-a", "team-b"}) {
    wire::CompileRequest request = FakeRequest({"fake.salt.same"});
    request.set_cache_namespace(team);
    ASSERT_TRUE(daemon_.client().Compile(request).status.ok());
  }
  const std::string list = List();
  for (const char* text :
       {"  NAMESPACE  ", "  team-a     cpu x86-64-v3",
        "  team-b     cpu x86-64-v3", "  default    cpu x86-64-v3"})
    Has(list, text);
}

TEST_F(Commands, ShowTakesTheFirstDigitsOfAKey) {
  const std::string list = List();
  const std::string key = list.substr(list.find('\n') + 1, 6);
  Has(Text(
          ShowCommand(*admin_, key, "", ShowWhat::kPlan, OutputFormat::kTable)),
      "target   cpu x86-64-v3");
  Has(Text(ShowCommand(*admin_, key, "", ShowWhat::kSources,
                       OutputFormat::kTable)),
      "// unit ");
  Has(Text(ShowCommand(*admin_, key, "", ShowWhat::kPlan, OutputFormat::kJson)),
      "\"sources\": [");
  EXPECT_FALSE(ShowCommand(*admin_, "ffffffffffff", "", ShowWhat::kPlan,
                           OutputFormat::kTable)
                   .ok());
}

TEST_F(Commands, ExplainNamesTheFirstPartThatDiffers) {
  const std::string path = WriteReluCase(testing::TempDir());
  const std::string text = Text(ExplainCommand(
      *admin_, {.subject = path, .arch = "x86-64-v3"}, OutputFormat::kTable));
  Has(text, "first difference: graph");
  Has(Text(ExplainCommand(*admin_, {.subject = path, .arch = "x86-64-v3"},
                          OutputFormat::kJson)),
      "\"first_difference\": \"graph\"");
}

TEST_F(Commands, PurgeRemovesWhatItNamesAndADryRunDoesNot) {
  EXPECT_TRUE(absl::IsInvalidArgument(Purge({}, true).status()));
  Has(Text(Purge({.all = true, .dry_run = true}, true)),
      "would purge 1 entries");
  Has(List(), "cpu x86-64-v3");
  Has(Text(Purge({.device = "cuda"}, true)), "purged 0 entries");
  Has(Text(Purge({.all = true}, true)), "purged 1 entries");
  EXPECT_EQ(List(), "no entries\n");
  EXPECT_EQ(asked_, 1);  // about all, whatever it is
}

TEST_F(Commands, ABigPurgeIsAskedAbout) {
  for (uint64_t i = 0; i < kBigPurgeEntries; ++i) {
    ASSERT_TRUE(daemon_.client()
                    .Compile(FakeRequest({"fake.salt." + std::to_string(i)}))
                    .status.ok());
  }
  EXPECT_TRUE(absl::IsAborted(Purge({.device = "cpu"}, false).status()));
  EXPECT_EQ(asked_, 1);
  Has(List(), "cpu x86-64-v3");
  EXPECT_TRUE(Purge({.all = true, .yes = true}, false).ok());
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(List(), "no entries\n");
}

TEST_F(Commands, VersionAlsoWithoutADaemon) {
  Has(Text(VersionCommand(*admin_, OutputFormat::kTable)), "kilnd      0.");
  Has(Text(VersionCommand(*admin_, OutputFormat::kTable)), "\npublic key ");
  Has(Text(VersionCommand(*admin_, OutputFormat::kTable)), "\nkey id     ");
  Has(Text(VersionCommand(absl::UnavailableError("nobody"),
                          OutputFormat::kTable)),
      "unknown: nobody");
}

TEST_F(Commands, DoctorFindsTheDaemonWell) {
  DoctorOptions options;
  options.daemon = address_;
  options.data_folder = daemon_.config().data_folder;
  for (const Finding& finding : Examine(options)) {
    if (finding.subject == "daemon" || finding.subject == "socket") {
      EXPECT_EQ(finding.health, Health::kGood) << finding.found;
    }
  }
}

}  // namespace
}  // namespace kiln

#include "server/config.h"

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "proto/base/toml_letters.h"
#include "server/config_text.h"

namespace kiln {
namespace {

Config SoundConfig() {
  Config config;
  config.socket = "/run/kiln/kilnd.sock";
  config.data_folder = "/var/lib/kiln";
  return config;
}

TEST(Config, WhatIsPrintedReadsBackAsTheSame) {
  Config config = SoundConfig();
  config.worker_args = {"--nvrtc", "a \"quoted\" path", "\n'a'\n\\\"\x7f\t",
                        "'''\r\x01 gr\xc3\xbc\xc3\x9f"};
  config.worker_timeout = absl::Milliseconds(1500);
  const std::string text = ConfigText(config);
  Config again;
  ASSERT_TRUE(ReadConfigText(text, "test", again).ok());
  EXPECT_EQ(ConfigText(again), text);
  EXPECT_EQ(again.worker_args, config.worker_args);
  EXPECT_EQ(again.worker_timeout, config.worker_timeout);
}

TEST(Config, AWordThatIsNotNamedKeepsItsValue) {
  Config config = SoundConfig();
  ASSERT_TRUE(ReadConfigText("[jobs]\nqueue_limit = 7\n", "t", config).ok());
  EXPECT_EQ(config.queue_limit, 7);
  EXPECT_EQ(config.socket, "/run/kiln/kilnd.sock");
}

TEST(Config, AMistakeIsRefusedWithItsPlace) {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"[jobs\n", "t: line 1"},
      {"[joobs]\n", "t: [joobs]: no such table"},
      {"[jobs]\nlimit = 7\n", "t: [jobs] limit: unknown word"},
      {"[jobs]\nqueue_limit = \"7\"\n",
       "t:2: [jobs] queue_limit: expected a whole number"},
      {"[workers]\ntimeout = \"soon\"\n",
       "found \"soon\", expected a duration like \"90s\", \"12h\" or \"7d\""},
      {"[workers]\nargs = [1]\n", "[workers] args: expected a list of strings"},
      {"socket = \"x\"\n", "[socket]: no such table"},
  };
  for (const Row& row : rows) {
    Config config;
    const absl::Status status = ReadConfigText(row.text, "t", config);
    EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << row.text;
    EXPECT_TRUE(absl::StrContains(status.message(), row.message)) << status;
  }
}

TEST(Config, ValuesOutOfRangeAreRefused) {
  EXPECT_TRUE(CheckConfig(SoundConfig()).ok());
  const auto broken = [](auto change) {
    Config config = SoundConfig();
    change(config);
    return ReasonOf(CheckConfig(config)) == ErrorReason::kBadOption;
  };
  EXPECT_TRUE(broken([](Config& c) { c.queue_limit = 0; }));
  Config strong = SoundConfig();
  strong.worker_sandbox = "strong";
  EXPECT_EQ(CheckConfig(strong).message(),
            "[workers] sandbox: found \"strong\", expected strongest, "
            "namespaces, landlock or limits");
  EXPECT_FALSE(broken([](Config& c) { c.worker_sandbox = "strongest"; }));
  EXPECT_FALSE(broken([](Config& c) { c.worker_sandbox = "landlock"; }));
  EXPECT_TRUE(broken([](Config& c) { c.far_namespace_budgets = {"team-a"}; }));
  EXPECT_TRUE(broken([](Config& c) { c.max_message_bytes = 1; }));
  EXPECT_TRUE(broken([](Config& c) { c.data_folder.clear(); }));
  EXPECT_TRUE(broken([](Config& c) { c.socket.clear(); }));
  EXPECT_TRUE(broken([](Config& c) { c.socket = std::string(200, 'x'); }));
  EXPECT_TRUE(broken([](Config& c) { c.log_format = "xml"; }));
  EXPECT_TRUE(broken([](Config& c) { c.worker_timeout = absl::Seconds(0); }));
}

TEST(Config, TheStoragesWordsAreChecked) {
  const auto read = [](const char* words) {
    Config config = SoundConfig();
    EXPECT_TRUE(
        ReadConfigText(absl::StrCat("[storage]\n", words), "t", config).ok());
    return CheckConfig(config);
  };
  EXPECT_TRUE(read("cache_budget_entries = 1000000\ncache_unused = \"30d\"\n"
                   "namespace_budgets = [\"team-a=1000\", \"*=5\"]\n"
                   "sync_every = \"0\"\n")
                  .ok());
  for (const char* bad :
       {"cache_budget_entries = -1", "cache_unused = \"59m\"",
        "cache_unused = \"-1h\"", "sync_every = \"-1s\"",
        "sync_every = \"11m\"", "namespace_budgets = [\"team-a\"]",
        "namespace_budgets = [\"=5\"]", "namespace_budgets = [\"a=0\"]",
        "namespace_budgets = [\"A B=5\"]",
        "namespace_budgets = [\"a=1\", \"a=2\"]"}) {
    const absl::Status status = read(bad);
    EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << bad;
    EXPECT_TRUE(absl::StrContains(status.message(), "[storage]")) << status;
  }
  EXPECT_EQ(ParseNamespaceBudgets({"a=5", "*=7"})->at("*"), 7);
}

TEST(Config, EveryDurationHasAnEnd) {
  for (const char* word :
       {"[workers]\ntimeout", "[workers]\ncpu_limit", "[jobs]\npoison_time",
        "[jobs]\ndrain_timeout", "[listen]\nwrite_timeout",
        "[listen]\nidle_exit", "[storage]\ncache_unused",
        "[storage]\nsync_every", "[far]\nbudget", "[far]\nlease_wait",
        "[far]\nttl"}) {
    for (const char* value : {"inf", "-inf", "-1s"}) {
      Config config = SoundConfig();
      const std::string text = absl::StrCat(word, " = \"", value, "\"\n");
      ASSERT_TRUE(ReadConfigText(text, "t", config).ok()) << text;
      const absl::Status status = CheckConfig(config);
      EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << text << status;
      EXPECT_TRUE(
          absl::StrContains(status.message(), absl::StrCat("found ", value)))
          << text << status;
    }
  }
}

TEST(Config, TheFarTiersWordsAreChecked) {
  struct Row {
    const char* text;
    const char* message;
  };
  const std::string key(64, 'a');
  Config sound = SoundConfig();
  const std::string good = absl::StrCat(
      "[far]\naddresses = [\"redis-1:6379\", \"[::1]:7000\"]\n"
      "budget = \"50ms\"\n[keys]\ntrusted = [\"",
      key, "\"]\n");
  ASSERT_TRUE(ReadConfigText(good, "t", sound).ok());
  EXPECT_TRUE(CheckConfig(sound).ok()) << CheckConfig(sound);
  const Row rows[] = {
      {"[far]\naddresses = [\"redis-1\"]\n",
       "[far]: addresses: found \"redis-1\""},
      {"[far]\nbudget = \"10ms\"\n", "[far]: budget: found 10ms"},
      {"[far]\nbudget = \"1s\"\n", "expected 50ms to 200ms"},
      {"[far]\nttl = \"1s\"\n", "[far]: ttl: found 1s"},
      {"[far]\nuser = \"kiln\"\n", "[far]: user: is set without"},
      {"[far]\ntls_key = \"k\"\n", "only one of them is set"},
      {"[far]\ntls_key = \"k\"\ntls_certificate = \"c\"\n", "without tls_ca"},
      {"[far]\nqueue_bytes = -1\n", "[far]: queue_bytes: found -1"},
      {"[far]\nmax_record_bytes = 1\n", "[far]: max_record_bytes"},
      {"[keys]\ntrusted = [\"abc\"]\n", "[keys] trusted: found \"abc\""},
  };
  for (const Row& row : rows) {
    Config config = SoundConfig();
    ASSERT_TRUE(ReadConfigText(row.text, "t", config).ok()) << row.text;
    const absl::Status status = CheckConfig(config);
    EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << row.text;
    EXPECT_TRUE(absl::StrContains(status.message(), row.message)) << status;
  }
}

TEST(Config, TcpTakesTlsOrAPlainLoopbackAddressThatIsAskedFor) {
  struct Row {
    const char* tcp;
    bool plain;
    bool certificate;
    bool key;
    const char* found;  // in the message; empty: it is taken
  };
  for (const Row& row :
       {Row{"0.0.0.0:7117", false, false, false, "TCP requires TLS"},
        Row{"127.0.0.1:7117", false, false, false, "tcp_plain"},
        Row{"0.0.0.0:7117", false, true, true, ""},
        Row{"0.0.0.0:7117", false, true, false, "set both"},
        Row{"0.0.0.0:7117", true, false, false, "loopback"},
        Row{"10.0.0.1:7117", true, false, false, "loopback"},
        Row{"example.org:7117", true, false, false, "loopback"},
        Row{"127.0.0.1:7117", true, false, false, ""},
        Row{"127.8.0.1:7117", true, false, false, ""},
        Row{"localhost:7117", true, false, false, ""},
        Row{"[::1]:7117", true, false, false, ""},
        Row{"127.0.0.1:7117", true, true, true, "set one of them"},
        Row{"", true, false, false, "is set without tcp"}}) {
    Config config = SoundConfig();
    config.tcp = row.tcp;
    config.tcp_plain = row.plain;
    if (row.certificate) config.tls_certificate = "/tls/kilnd.crt";
    if (row.key) config.tls_key = "/tls/kilnd.key";
    const absl::Status status = CheckConfig(config);
    const bool taken = *row.found == 0;
    EXPECT_EQ(status.ok(), taken) << row.tcp << " " << row.found;
    EXPECT_TRUE(taken || absl::StrContains(status.message(), row.found))
        << status;
  }
}

TEST(Config, AccessIsGrantedByRules) {
  Config config = SoundConfig();
  const std::string text =
      "[[access]]\nwho = \"cert:trainer.example\"\nrole = \"submitter\"\n"
      "namespaces = [\"team-a\", \"team-b\"]\n\n"
      "[[access]]\nwho = \"uid:1001\"\nrole = \"reader\"\n"
      "namespaces = [\"*\"]\n";
  ASSERT_TRUE(ReadConfigText(text, "kilnd.toml", config).ok());
  const std::vector<AccessRule> due = {
      {"cert:trainer.example", {Role::kSubmitter, {"team-a", "team-b"}}},
      {"uid:1001", {Role::kReader, {"*"}}}};
  EXPECT_EQ(config.access, due);
  EXPECT_TRUE(CheckConfig(config).ok());
  Config again;
  ASSERT_TRUE(ReadConfigText(ConfigText(config), "printed", again).ok());
  EXPECT_EQ(again.access, due);
}

TEST(Config, ARuleThatCouldNeverHoldIsRefusedByItsLine) {
  const auto said = [](const std::string& words) {
    Config config = SoundConfig();
    return std::string(
        ReadConfigText(absl::StrCat("\n[[access]]\n", words), "k.toml", config)
            .message());
  };
  const std::string rest = "role = \"reader\"\nnamespaces = [\"*\"]\n";
  for (const char* who : {"\"\"", "\"root\"", "\"uid:x\"", "\"uid:-1\"",
                          "\"uid:+1\"", "\"cert:\"", "7"}) {
    EXPECT_TRUE(absl::StrContains(said(absl::StrCat("who = ", who, "\n", rest)),
                                  "k.toml:2: [[access]] who"))
        << who;
  }
  EXPECT_TRUE(absl::StrContains(
      said("who = \"uid:1\"\nrole = \"king\"\nnamespaces = [\"*\"]"),
      "role: expected reader, submitter, publisher or admin"));
  EXPECT_TRUE(absl::StrContains(said("who = \"uid:1\"\nrole = \"reader\""),
                                "namespaces: the list is empty"));
  EXPECT_TRUE(absl::StrContains(
      said("who = \"plain\"\nrole = \"admin\"\nnamespaces = [\"*\"]"),
      "more than a submitter"));
  EXPECT_TRUE(absl::StrContains(said(absl::StrCat("what = 1\n", rest)),
                                "what: unknown word"));
  Config config = SoundConfig();
  EXPECT_FALSE(ReadConfigText("access = 1", "k.toml", config).ok());
}

TEST(Config, AnAddressIsAHostAndAPort) {
  Config config = SoundConfig();
  config.tls_certificate = "/tls/kilnd.crt";
  config.tls_key = "/tls/kilnd.key";
  for (const char* sound :
       {"127.0.0.1:7117", "localhost:1", "[::1]:65535", "a-b.example:80"}) {
    config.tcp = sound;
    EXPECT_TRUE(CheckConfig(config).ok()) << sound;
  }
  for (const char* bad :
       {"foo", "127.0.0.1:99999", "127.0.0.1:0", "127.0.0.1:-1", ":80",
        "127.0.0.1:", "127.0.0.1: 80", "127.0.0.1:+80", "::1:80", "[]:80",
        "a b:80", "http://a:80", "127.0.0.1:80x"}) {
    config.tcp = bad;
    const absl::Status status = CheckConfig(config);
    EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << bad;
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  absl::StrCat("found \"", bad, "\"")))
        << status;
  }
}

TEST(Config, AFileWithoutAnEndOrOfAnOddSizeIsNotRead) {
  struct Row {
    std::string path;
    const char* message;
  };
  const std::string folder = testing::TempDir();
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string large = folder + "/large.toml";
  std::ofstream(large) << std::string((1 << 20) + 1, '\n');
  for (const Row& row :
       {Row{"/dev/zero", ": not a regular file"},
        Row{pipe, ": not a regular file"}, Row{folder, ": not a regular file"},
        Row{large, ": found 1048577 bytes, expected at most 1048576"},
        Row{"/nowhere.toml", ": can't be read: No such file or directory"}}) {
    Config config;
    const absl::Status status = ReadConfigFile(row.path, config);
    EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << row.path;
    EXPECT_EQ(status.message(), absl::StrCat(row.path, row.message));
  }
}

TEST(Config, LettersBeyondAsciiStandInStringsAndCommentsAlone) {
  for (const char* toml :
       {"# für alle\n[storage]\ndata_folder = \"/größe\"\n",
        "\xef\xbb\xbf[storage]\ndata_folder = '/größe'\n",
        "[storage]\ndata_folder = \"/gr\\\"öße\" # groß\n"}) {
    Config config;
    EXPECT_TRUE(ReadConfigText(toml, "t", config).ok()) << toml;
  }
  for (const char* toml :
       {"[größe]\n", "[log]\nlevel = é\n",
        "[log]\nlevel = \"info\" \xef\xbb\xbe\n", "[log]\nlevel = 25\"é\"\n",
        "[log]\nlevel = 25 = \"é\"\n", "[log]\nlevel = 25[\"é\"]\n",
        "[log]\nlevel = \"\"\"\\é\"\"\"\n"}) {
    Config config;
    const absl::Status status = ReadConfigText(toml, "t", config);
    EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << toml;
    EXPECT_TRUE(absl::StrContains(status.message(), "beyond ASCII")) << status;
  }
  EXPECT_TRUE(CheckTomlLetters("a = [[\"größe\"],\n  'größe']\n", "t").ok());
  // toml++ asserted that there is no such name.
  Config config;
  EXPECT_EQ(ReasonOf(ReadConfigText("[#x]\n", "t", config)),
            ErrorReason::kBadOption);
}

}  // namespace
}  // namespace kiln

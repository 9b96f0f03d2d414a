// The same request gives the same bytes, whoever compiles it and wherever. Each
// test asks a daemon of its own, a fresh process with fresh workers (other
// addresses, so other hash seeds, in each) and an empty database, and compares
// the artifacts with those of the first.

#include <gtest/gtest.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/compile_client.h"
#include "client/corpus_runner/private_daemon.h"
#include "client/corpus_runner/retarget_graph.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "proto/corpus/corpus_bytes.h"
#include "proto/corpus/corpus_case.h"
#include "tests/support/nvrtc_of_tests.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// What is compiled: rows, columns, symbols, library calls, dropout.
constexpr const char* kModels[] = {"mlp_layernorm_train", "mlp_dynamic_train",
                                   "transformer_encoder_layer_train"};

using Artifacts = std::vector<std::string>;

bool HasNvrtc() {
  return MakeNvrtcToolchain({.library_dirs = NvrtcFoldersOfTests()})
      ->Version()
      .ok();
}

std::vector<wire::CompileRequest> RequestsFor(const wire::Target& target,
                                              wire::DeviceType device) {
  std::vector<wire::CompileRequest> out;
  for (const char* model : kModels) {
    auto cases =
        ReadCorpusFile(absl::StrCat("tests/corpus/models/", model, ".jsonl"));
    EXPECT_TRUE(cases.ok()) << cases.status();
    for (CorpusCase& c : *cases) {
      if (BaseName(c) != c.name) continue;  // other sizes of the same graph
      RetargetGraph(c.graph, device);
      *out.emplace_back().mutable_graph() = std::move(c.graph);
      *out.back().mutable_target() = target;
    }
  }
  return out;
}

// For the CPU, and for sm_90 where there is NVRTC.
std::vector<wire::CompileRequest> Requests() {
  wire::Target cpu, cuda;
  cpu.mutable_cpu()->set_level("x86-64-v3");
  cuda.mutable_cuda()->set_arch("sm_90");
  std::vector<wire::CompileRequest> out =
      RequestsFor(cpu, wire::DEVICE_TYPE_CPU);
  if (HasNvrtc()) {
    for (auto& request : RequestsFor(cuda, wire::DEVICE_TYPE_CUDA)) {
      out.push_back(std::move(request));
    }
  }
  return out;
}

// A daemon of its own, and who asks it.
struct Asked {
  explicit Asked(int workers, std::vector<std::string> environment = {}) {
    const char* folders = getenv("KILN_CUDA_LIBRARY_PATH");
    if (folders != nullptr) {
      environment.push_back(absl::StrCat("KILN_CUDA_LIBRARY_PATH=", folders));
    }
    auto started =
        PrivateDaemon::Start({.kilnd = Root() + "/server/kilnd",
                              .worker = Root() + "/compiler/kiln-worker",
                              .worker_environment = std::move(environment),
                              .folder = folder.path(),
                              .workers = workers});
    EXPECT_TRUE(started.ok()) << started.status();
    if (!started.ok()) return;
    daemon = *std::move(started);
    DaemonAddress address;
    address.socket = daemon->socket();
    auto connected = CompileClient::Connect(address);
    EXPECT_TRUE(connected.ok()) << connected.status();
    if (connected.ok()) client = *std::move(connected);
  }

  // Where the test began: some tests go elsewhere.
  static const std::string& Root() {
    static const auto* const root = new std::string(fs::current_path());
    return *root;
  }

  CompileOutcome Compile(const wire::CompileRequest& request) {
    CompileOutcome none;
    if (client == nullptr) return none;
    auto outcome = client->Compile(request, {});
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *std::move(outcome) : none;
  }

  Artifacts CompileAll(const std::vector<wire::CompileRequest>& requests) {
    Artifacts out;
    for (const auto& request : requests) {
      out.push_back(Compile(request).artifact.artifact());
    }
    return out;
  }

  ShortFolder folder;
  std::unique_ptr<PrivateDaemon> daemon;
  std::unique_ptr<CompileClient> client;
};

class Determinism : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Asked::Root();
    requests_ = new std::vector<wire::CompileRequest>(Requests());
    first_ = new Artifacts(Asked(1).CompileAll(*requests_));
  }

  void SetUp() override {
    ASSERT_GE(requests_->size(), 6u);
    for (const std::string& artifact : *first_) ASSERT_FALSE(artifact.empty());
  }

  // How many artifacts are not those of the first daemon.
  static int Others(const Artifacts& artifacts) {
    int others = 0;
    for (size_t i = 0; i < first_->size(); ++i) {
      others += i >= artifacts.size() || artifacts[i] != (*first_)[i];
    }
    return others;
  }

  static std::vector<wire::CompileRequest>* requests_;
  static Artifacts* first_;
};

std::vector<wire::CompileRequest>* Determinism::requests_ = nullptr;
Artifacts* Determinism::first_ = nullptr;

TEST_F(Determinism, CudaIsComparedToo) {
  const auto nvrtc =
      MakeNvrtcToolchain({.library_dirs = NvrtcFoldersOfTests()});
  KILN_LEAVE_WITHOUT_NVRTC(nvrtc->Version().status());
  EXPECT_TRUE(requests_->back().target().has_cuda());
}

// Before all others: a comparison that cannot fail says nothing. The compiler
// is wrapped so that each object gets an identity of its own.
TEST_F(Determinism, ACompilerThatWritesAnythingElseEachTimeIsSeen) {
  ShortFolder folder;
  const std::string compiler = folder.path() + "/g++";
  std::ofstream(compiler) << "#!/bin/sh\n"
                             "exec g++ \"$@\" -Wl,--build-id=uuid\n";
  // Workers are other users where the daemon is root.
  for (const std::string& path : {compiler, folder.path()}) {
    fs::permissions(path, fs::perms(0755));
  }
  const std::vector<wire::CompileRequest> one(requests_->begin(),
                                              requests_->begin() + 1);
  const std::vector<std::string> environment = {
      absl::StrCat("KILN_HOST_CC=", compiler)};
  EXPECT_NE(Asked(1, environment).CompileAll(one),
            Asked(1, environment).CompileAll(one));
}

TEST_F(Determinism, AnotherDaemonAndWorkerGiveEqualBytes) {
  EXPECT_EQ(Others(Asked(1).CompileAll(*requests_)), 0);
}

TEST_F(Determinism, ThreeWorkersGiveTheBytesOfOne) {
  Asked asked(3);
  Artifacts artifacts(requests_->size());
  std::vector<std::thread> callers;
  for (size_t i = 0; i < requests_->size(); ++i) {
    callers.emplace_back([&asked, &artifacts, i] {
      artifacts[i] = asked.Compile((*requests_)[i]).artifact.artifact();
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(Others(artifacts), 0);
}

TEST_F(Determinism, TheOrderOfRequestsIsNotInTheBytes) {
  std::vector<wire::CompileRequest> backwards(requests_->rbegin(),
                                              requests_->rend());
  Artifacts artifacts = Asked(1).CompileAll(backwards);
  std::reverse(artifacts.begin(), artifacts.end());
  EXPECT_EQ(Others(artifacts), 0);
}

TEST_F(Determinism, AWarmUnitCacheGivesTheBytesOfAColdOne) {
  Asked asked(1);
  // Other requests for the same kernels: the tag is a part of the key alone.
  std::vector<wire::CompileRequest> tagged = *requests_;
  for (auto& request : tagged) {
    request.mutable_options()->mutable_artifact()->set_cache_tag("before");
  }
  asked.CompileAll(tagged);
  Artifacts artifacts;
  for (const auto& request : *requests_) {
    CompileOutcome outcome = asked.Compile(request);
    EXPECT_EQ(outcome.served_from, wire::CompileResult::SERVED_FROM_COMPILE);
    EXPECT_EQ(outcome.units_built, 0);
    EXPECT_GT(outcome.units_cached, 0);
    artifacts.push_back(std::move(*outcome.artifact.mutable_artifact()));
  }
  EXPECT_EQ(Others(artifacts), 0);
}

// By name, with a word on what is missing.
std::map<std::string, int64_t> CountersOf(const wire::CompilePlan& plan) {
  std::map<std::string, int64_t> counters;
  std::string before;
  for (const wire::Counter& counter : plan.counters()) {
    EXPECT_LT(before, counter.name()) << "not sorted";
    before = counter.name();
    counters[counter.name()] = counter.value();
  }
  return counters;
}

// Sources of all units and bytes of all kernels, as text.
std::vector<std::string> SourcesAndMetricsOf(const wire::CompilePlan& plan) {
  std::vector<std::string> out;
  for (const wire::TranslationUnit& unit : plan.units()) {
    EXPECT_FALSE(unit.source().empty());
    out.push_back(unit.source());
  }
  for (const wire::PlanKernel& kernel : plan.plan().kernels()) {
    EXPECT_FALSE(kernel.text().empty());
    out.push_back(absl::StrCat(kernel.label(), "\n", kernel.text(), "read ",
                               kernel.bytes_read().ShortDebugString(),
                               " written ",
                               kernel.bytes_written().ShortDebugString()));
  }
  return out;
}

TEST_F(Determinism, AHitBringsSourcesCountersAndMetricsOfTheCompile) {
  Asked asked(1);
  for (wire::CompileRequest request : *requests_) {
    const CompileOutcome cold = asked.Compile(request);
    // What is only asked for to look at the compile changes nothing.
    request.mutable_options()->mutable_diagnostic()->set_verify_passes(true);
    const CompileOutcome hit = asked.Compile(request);
    ASSERT_EQ(cold.served_from, wire::CompileResult::SERVED_FROM_COMPILE);
    ASSERT_EQ(hit.served_from, wire::CompileResult::SERVED_FROM_CACHE);
    wire::Artifact first, second;
    ASSERT_TRUE(first.ParseFromString(cold.artifact.artifact()));
    ASSERT_TRUE(second.ParseFromString(hit.artifact.artifact()));
    const auto counters = CountersOf(first.compiled());
    EXPECT_EQ(CountersOf(second.compiled()), counters);
    for (absl::string_view end :
         {"generated_kernel_count", "launch_count", "num_bytes_accessed",
          "_import_graph", "_decompose_composites", "_choose_variants"}) {
      const auto counter = std::find_if(
          counters.begin(), counters.end(),
          [&](const auto& c) { return absl::EndsWith(c.first, end); });
      ASSERT_NE(counter, counters.end()) << end;
      EXPECT_GT(counter->second, 0) << end;
    }
    for (absl::string_view name :
         {"binary_folding", "pattern_matches", "scatter_upon_const_tensor"}) {
      EXPECT_TRUE(counters.count(std::string(name))) << name;
    }
    EXPECT_EQ(SourcesAndMetricsOf(second.compiled()),
              SourcesAndMetricsOf(first.compiled()));
  }
}

TEST_F(Determinism, OtherNamesGiveEqualBytes) {
  std::vector<wire::CompileRequest> renamed = *requests_;
  for (auto& request : renamed) {
    wire::Graph& graph = *request.mutable_graph();
    int next = 1000;
    graph.set_name("another");
    for (auto& symbol : *graph.mutable_symbols()) {
      symbol.set_name(absl::StrCat("u", next--));
    }
    for (auto& input : *graph.mutable_inputs()) {
      input.set_name(absl::StrCat("input", next--));
    }
    for (auto& constant : *graph.mutable_constants()) {
      constant.set_name(absl::StrCat("constant", next--));
    }
    for (auto& node : *graph.mutable_nodes()) {
      node.set_name(absl::StrCat("node", next--));
      node.set_stack_trace("model.py:1");
    }
  }
  EXPECT_EQ(Others(Asked(1).CompileAll(renamed)), 0);
}

// A copy of the C locale of this machine whose decimal point is a comma.
void WriteCommaLocale(const std::string& folder) {
  fs::copy("/usr/lib/locale/C.utf8", folder + "/xx_XX.utf8",
           fs::copy_options::recursive);
  const std::string path = folder + "/xx_XX.utf8/LC_NUMERIC";
  std::stringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  std::string text = bytes.str();
  // The header is eight 4-byte numbers and the offsets of six fields.
  std::replace(text.begin() + 32, text.end(), '.', ',');
  fs::permissions(path, fs::perms::owner_all);
  std::ofstream(path, std::ios::binary) << text;
}

TEST_F(Determinism, AnotherLocaleGivesEqualBytes) {
  ShortFolder folder;
  WriteCommaLocale(folder.path());
  const std::string search = folder.path();
  setenv("LOCPATH", search.c_str(), 1);
  setenv("LC_ALL", "xx_XX.utf8", 1);
  const locale_t locale = newlocale(LC_ALL_MASK, "", nullptr);
  ASSERT_NE(locale, nullptr) << "the test's own locale is not read";
  ASSERT_STREQ(nl_langinfo_l(RADIXCHAR, locale), ",");
  freelocale(locale);
  Artifacts artifacts =
      Asked(1, {absl::StrCat("LOCPATH=", search), "LC_ALL=xx_XX.utf8"})
          .CompileAll(*requests_);
  unsetenv("LC_ALL");
  unsetenv("LOCPATH");
  EXPECT_EQ(Others(artifacts), 0);
}

TEST_F(Determinism, AnotherWorkingDirectoryAndEnvironmentGiveEqualBytes) {
  ShortFolder folder;
  fs::current_path(folder.path());
  setenv("TZ", "Asia/Kathmandu", 1);
  Artifacts artifacts =
      Asked(1, {"TZ=Asia/Kathmandu", "SOURCE_DATE_EPOCH=1", "COLUMNS=40"})
          .CompileAll(*requests_);
  unsetenv("TZ");
  fs::current_path(Asked::Root());
  EXPECT_EQ(Others(artifacts), 0);
}

}  // namespace
}  // namespace kiln

// Graphs of models at their true size, from the request to kernel sources and
// the plan, for both kinds of device. They have no data: that they are planned,
// and that what is missing names itself, is all that is seen here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/corpus_runner/retarget_graph.h"
#include "compiler/compiler.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_bytes.h"
#include "proto/corpus/corpus_case.h"
#include "proto/key/canonical_graph.h"

namespace kiln {
namespace {

// The names of the graphs that say that an operator is missing.
std::vector<std::string> NotPlanned(const wire::Target& target,
                                    wire::DeviceType device) {
  std::vector<std::string> out;
  const auto files = ListCorpusFiles("tests/corpus/full");
  EXPECT_TRUE(files.ok()) << files.status();
  for (const std::string& file : *files) {
    auto cases = ReadCorpusFile(file);
    EXPECT_TRUE(cases.ok() && !cases->empty()) << file << cases.status();
    for (CorpusCase& c : *cases) {
      RetargetGraph(c.graph, device);
      auto canonical = CanonicalizeGraph(c.graph);
      EXPECT_TRUE(c.readable.ok() && canonical.ok()) << c.name;
      wire::PlanRequest request;
      *request.mutable_compile()->mutable_graph() = std::move(canonical->graph);
      *request.mutable_compile()->mutable_target() = target;
      request.mutable_compile()
          ->mutable_options()
          ->mutable_diagnostic()
          ->set_verify_passes(true);
      const auto compiled = CompileGraph(request);
      if (compiled.ok()) {
        EXPECT_GT(compiled->plan.units_size(), 0) << c.name;
      } else {
        EXPECT_EQ(ReasonOf(compiled.status()), ErrorReason::kUnsupportedOp)
            << c.name << ": " << compiled.status();
        out.push_back(c.name);
      }
    }
  }
  return out;
}

TEST(FullGraphs, ArePlannedForSm90) {
  wire::Target target;
  target.mutable_cuda()->set_arch("sm_90");
  EXPECT_THAT(NotPlanned(target, wire::DEVICE_TYPE_CUDA), testing::IsEmpty());
}

TEST(FullGraphs, ArePlannedForTheCpu) {
  wire::Target target;
  target.mutable_cpu()->set_level("x86-64-v3");
  EXPECT_THAT(NotPlanned(target, wire::DEVICE_TYPE_CPU), testing::IsEmpty());
}

}  // namespace
}  // namespace kiln

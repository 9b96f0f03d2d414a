// What the compiler's front takes, from a wire graph to kernel sources and
// plan, on one thread, and where the time goes.
//
//   plan_bench [--arch=sm_90] [--repeats=9] CASE_FILE...
//
// A line a step with the median over all graphs' sums, then the whole.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "compiler/compiler.h"
#include "compiler/keep_freed_memory.h"
#include "proto/corpus/corpus_case.h"
#include "proto/key/request_digest.h"

namespace kiln {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The requests of a file, canonical as a worker gets them.
absl::StatusOr<std::vector<wire::PlanRequest>> RequestsOf(
    const std::string& path, const std::string& arch, int64_t& nodes) {
  ASSIGN_OR_RETURN(const std::vector<CorpusCase> cases, ReadCorpusFile(path));
  std::vector<wire::PlanRequest> requests;
  for (const CorpusCase& test_case : cases) {
    RETURN_IF_ERROR(test_case.readable);
    wire::CompileRequest request;
    *request.mutable_graph() = test_case.graph;
    request.mutable_target()->mutable_cuda()->set_arch(arch);
    ASSIGN_OR_RETURN(CanonicalRequest canonical, CanonicalizeRequest(request));
    *requests.emplace_back().mutable_compile() = std::move(canonical.request);
    nodes += test_case.graph.nodes_size();
  }
  return requests;
}

int Bench(const std::vector<std::string>& paths, const std::string& arch,
          int repeats) {
  std::vector<wire::PlanRequest> requests;
  int64_t nodes = 0;
  for (const std::string& path : paths) {
    auto more = RequestsOf(path, arch, nodes);
    if (!more.ok()) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(),
                   more.status().ToString().c_str());
      return 1;
    }
    for (wire::PlanRequest& request : *more)
      requests.push_back(std::move(request));
  }
  std::vector<std::string> order;
  std::map<std::string, std::vector<double>> steps;
  std::vector<double> whole;
  std::vector<double> processor;  // of this one thread: other work is not in it
  for (int i = 0; i < repeats; ++i) {
    std::map<std::string, double> sums;
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t processor_begin = std::clock();
    for (const wire::PlanRequest& request : requests) {
      const auto compiled = CompileGraph(request);
      if (!compiled.ok()) {
        std::fprintf(stderr, "%s\n", compiled.status().ToString().c_str());
        return 1;
      }
      for (const PassRecord& record : compiled->records) {
        if (steps.count(record.name) == 0 && sums.count(record.name) == 0)
          order.push_back(record.name);
        sums[record.name] += absl::ToDoubleMilliseconds(record.duration);
      }
    }
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - begin;
    whole.push_back(took.count());
    processor.push_back(1e3 *
                        static_cast<double>(std::clock() - processor_begin) /
                        CLOCKS_PER_SEC);
    for (const auto& [name, ms] : sums) steps[name].push_back(ms);
  }
  std::printf("%-28s %10s\n", "step", "ms");
  for (const std::string& name : order)
    std::printf("%-28s %10.2f\n", name.c_str(), Median(steps[name]));
  std::printf("%-28s %10.2f  (%lld graphs, %lld nodes, median of %d)\n",
              "graph to sources and plan", Median(whole),
              static_cast<long long>(requests.size()),
              static_cast<long long>(nodes), repeats);
  std::printf("%-28s %10.2f\n", "of it processor time", Median(processor));
  return 0;
}

int Main(int argc, char** argv) {
  std::string arch = "sm_90";
  int repeats = 9;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--arch=")) {
      arch = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--repeats=")) {
      repeats = std::max(1, std::atoi(std::string(argument).c_str()));
    } else {
      paths.emplace_back(argument);
    }
  }
  if (paths.empty()) {
    std::fprintf(stderr, "usage: %s [--arch=sm_90] [--repeats=9] FILE...\n",
                 argv[0]);
    return 2;
  }
  return Bench(paths, arch, repeats);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::KeepFreedMemory();  // as a worker does
  return kiln::Main(argc, argv);
}

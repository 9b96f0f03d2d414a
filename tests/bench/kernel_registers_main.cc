// What ptxas says of the generated kernels of corpus files: registers, and bytes
// that spilled for want of them.
//
//   kernel_registers [--arch=sm_90] [--threads=2] CASE_FILE...
//
// A line for each kernel that spills, the worst first, then a line a family
// (poi: pointwise, per: rows held, red: other reductions, for: combined). Equal
// kernels count once. Looks for NVRTC where `./kiln bench` says, else where
// toolkits usually stand.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/compiler.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_case.h"
#include "proto/key/request_digest.h"

namespace kiln {
namespace {

struct Kernel {
  int registers = 0;
  int spilled = 0;  // bytes stored to local memory and loaded again
  std::string file;
};
using Kernels = std::map<std::string, Kernel>;  // by symbol

// The units of a file's graphs, as a worker would build them.
absl::Status AddUnits(const std::string& path, const std::string& arch,
                      std::map<std::string, std::string>& units) {
  ASSIGN_OR_RETURN(const std::vector<CorpusCase> cases, ReadCorpusFile(path));
  for (const CorpusCase& test_case : cases) {
    RETURN_IF_ERROR(test_case.readable);
    wire::CompileRequest request;
    *request.mutable_graph() = test_case.graph;
    request.mutable_target()->mutable_cuda()->set_arch(arch);
    ASSIGN_OR_RETURN(CanonicalRequest canonical, CanonicalizeRequest(request));
    wire::PlanRequest plan;
    *plan.mutable_compile() = std::move(canonical.request);
    const auto compiled = CompileGraph(plan);
    if (!compiled.ok()) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(),
                   compiled.status().ToString().c_str());
      continue;
    }
    for (const wire::TranslationUnit& unit : compiled->plan.units())
      units.emplace(unit.source(), path.substr(path.rfind('/') + 1));
  }
  return absl::OkStatus();
}

int NumberBefore(absl::string_view line, absl::string_view word) {
  const size_t end = line.find(word);
  if (end == absl::string_view::npos) return 0;
  const absl::string_view head = line.substr(0, end);
  const size_t begin = head.find_last_not_of("0123456789", end - 1);
  int number = 0;
  if (!absl::SimpleAtoi(head.substr(begin + 1), &number)) return 0;
  return number;
}

// Reads what ptxas writes with -v:
//
//   ptxas info : Function properties for kiln_poi_...
//       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info : Used 32 registers, ...
void ReadReport(const std::string& log, const std::string& file,
                Kernels& kernels) {
  std::string symbol;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    const size_t name = line.find("kiln_");
    if (absl::StrContains(line, "Function properties") &&
        name != absl::string_view::npos) {
      symbol = std::string(line.substr(name));
      while (!symbol.empty() && !absl::ascii_isalnum(symbol.back()))
        symbol.pop_back();
      kernels[symbol].file = file;
    } else if (absl::StrContains(line, "spill stores") && !symbol.empty()) {
      kernels[symbol].spilled = NumberBefore(line, " bytes spill stores") +
                                NumberBefore(line, " bytes spill loads");
    } else if (absl::StrContains(line, " registers") && !symbol.empty()) {
      kernels[symbol].registers = NumberBefore(line, " registers");
    }
  }
}

// "per" of "kiln_per_fused_...".
std::string FamilyOf(const std::string& symbol) { return symbol.substr(5, 3); }

int Report(const std::vector<std::string>& paths, const std::string& arch,
           int threads) {
  std::map<std::string, std::string> units;  // source -> file
  for (const std::string& path : paths) {
    const absl::Status added = AddUnits(path, arch, units);
    if (added.ok()) continue;
    std::fprintf(stderr, "%s: %s\n", path.c_str(), added.ToString().c_str());
    return 1;
  }
  const std::vector<std::pair<std::string, std::string>> all(units.begin(),
                                                             units.end());
  std::vector<Kernels> found(static_cast<size_t>(threads));
  std::vector<absl::Status> failed(static_cast<size_t>(threads));
  std::vector<std::thread> builders;
  for (size_t first = 0; first < found.size(); ++first) {
    builders.emplace_back([&, first] {
      std::vector<std::string> folders = UsualCudaFolders();
      if (const char* named = std::getenv("KILN_CUDA_LIBRARY_PATH"))
        folders.insert(folders.begin(), named);
      const auto toolchain = MakeNvrtcToolchain({.library_dirs = folders});
      std::vector<std::string> flags = UnitFlags(*TargetFromName(arch));
      flags.insert(flags.end(), {"--ptxas-options=-v"});
      for (size_t u = first; u < all.size(); u += found.size()) {
        const auto built = toolchain->Build(all[u].first, flags);
        if (!built.ok()) failed[first] = built.status();
        if (built.ok()) ReadReport(built->log, all[u].second, found[first]);
      }
    });
  }
  for (std::thread& builder : builders) builder.join();
  Kernels kernels;
  for (size_t t = 0; t < found.size(); ++t) {
    if (!failed[t].ok()) {
      std::fprintf(stderr, "%s\n", failed[t].ToString().c_str());
      return 1;
    }
    kernels.insert(found[t].begin(), found[t].end());
  }

  std::vector<std::pair<std::string, Kernel>> spill;
  struct Family {
    int kernels = 0, spilling = 0, bytes = 0, most_registers = 0;
  };
  std::map<std::string, Family> families;
  for (const auto& [symbol, kernel] : kernels) {
    Family& family = families[FamilyOf(symbol)];
    ++family.kernels;
    family.most_registers = std::max(family.most_registers, kernel.registers);
    if (kernel.spilled == 0) continue;
    ++family.spilling;
    family.bytes += kernel.spilled;
    spill.push_back({symbol, kernel});
  }
  std::sort(spill.begin(), spill.end(), [](const auto& a, const auto& b) {
    return a.second.spilled > b.second.spilled;
  });
  std::printf("%-9s %-9s %s\n", "spilled", "registers", "kernel (file)");
  for (const auto& [symbol, kernel] : spill) {
    std::printf("%-9d %-9d %s (%s)\n", kernel.spilled, kernel.registers,
                symbol.c_str(), kernel.file.c_str());
  }
  std::printf("\n%-9s %-9s %-9s %-9s %s\n", "family", "kernels", "spilling",
              "bytes", "most registers");
  for (const auto& [name, family] : families) {
    std::printf("%-9s %-9d %-9d %-9d %d\n", name.c_str(), family.kernels,
                family.spilling, family.bytes, family.most_registers);
  }
  return 0;
}

int Main(int argc, char** argv) {
  std::string arch = "sm_90";
  int threads = 2;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--arch=")) {
      arch = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--threads=")) {
      threads = std::max(1, std::atoi(std::string(argument).c_str()));
    } else {
      paths.emplace_back(argument);
    }
  }
  if (paths.empty() || !TargetFromName(arch).ok()) {
    std::fprintf(stderr, "usage: %s [--arch=sm_90] [--threads=2] FILE...\n",
                 argv[0]);
    return 2;
  }
  return Report(paths, arch, threads);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }

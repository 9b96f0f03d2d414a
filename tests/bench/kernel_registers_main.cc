// What ptxas says of the generated kernels of corpus files: registers, and bytes
// that spilled for want of them.
//
//   kernel_registers [--arch=sm_90] [--threads=2] CASE_FILE...
//
// A line for each kernel that spills, the worst first; one for each of the ten
// that need most registers beyond what the price reckons with; then a line for each
// family (poi: pointwise, per: rows held, red: other reductions, for: combined).
// Equal kernels count once. Looks for NVRTC where `./kiln bench` says, else where
// toolkits usually stand.

#include <algorithm>
#include <cmath>
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
#include "compiler/codegen/write_kernels.h"
#include "compiler/lower_request.h"
#include "compiler/schedule/plan_pipeline.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_case.h"
#include "proto/key/request_digest.h"

namespace kiln {
namespace {

struct Kernel {
  int registers = 0;
  int priced = 0;   // registers; 0: unknown
  int spilled = 0;  // bytes stored to local memory and loaded again
  std::string file;
};
using Kernels = std::map<std::string, Kernel>;  // by symbol

// The sources to build, each with its file, and what the price says of kernels.
struct Work {
  std::map<std::string, std::string> units;  // source -> file
  std::map<std::string, int> priced;         // symbol -> registers
};

// The registers that the price of the kernel's variant reckons with.
absl::StatusOr<int> PricedRegisters(const PlannedKernel& kernel,
                                    const KernelPlan& plan,
                                    const PassEnv& env) {
  ASSIGN_OR_RETURN(const ConfigSpace space, ConfigsOf(kernel, plan, env));
  for (const KernelConfig& config : space.configs())
    if (config.variant == kernel.variant) return config.price.registers;
  return 0;
}

// Plans a graph as a worker would.
absl::Status AddGraph(const wire::CompileRequest& request,
                      const std::string& file, Work& work) {
  std::vector<PassRecord> records;
  ASSIGN_OR_RETURN(LoweredRequest lowered, LowerRequest(request, records));
  ASSIGN_OR_RETURN(const KernelPlan plan,
                   PlanKernels(std::move(lowered.loops), lowered.env, records));
  ASSIGN_OR_RETURN(const std::vector<KernelSource> sources,
                   WriteKernels(plan, lowered.env.target));
  for (const UnitSource& unit : GroupIntoUnits(sources, lowered.env.target))
    work.units.emplace(unit.source, file);
  size_t next = 0;
  for (const PlannedStep& step : plan.steps) {
    const auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr && !std::holds_alternative<CombinedKernel>(step))
      continue;
    const std::string& symbol = sources[next++].symbol;
    if (kernel == nullptr || work.priced.contains(symbol)) continue;
    ASSIGN_OR_RETURN(work.priced[symbol],
                     PricedRegisters(*kernel, plan, lowered.env));
  }
  return absl::OkStatus();
}

absl::Status AddFile(const std::string& path, const std::string& arch,
                     Work& work) {
  ASSIGN_OR_RETURN(const std::vector<CorpusCase> cases, ReadCorpusFile(path));
  for (const CorpusCase& test_case : cases) {
    RETURN_IF_ERROR(test_case.readable);
    wire::CompileRequest request;
    *request.mutable_graph() = test_case.graph;
    request.mutable_target()->mutable_cuda()->set_arch(arch);
    ASSIGN_OR_RETURN(CanonicalRequest canonical, CanonicalizeRequest(request));
    const absl::Status added =
        AddGraph(canonical.request, path.substr(path.rfind('/') + 1), work);
    if (!added.ok())
      std::fprintf(stderr, "%s: %s\n", path.c_str(), added.ToString().c_str());
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

// Builds every `step`-th unit from number `first` on.
absl::Status BuildUnits(const Work& work, const std::string& arch, size_t first,
                        size_t step, Kernels& kernels) {
  std::vector<std::string> folders = UsualCudaFolders();
  if (const char* named = std::getenv("KILN_CUDA_LIBRARY_PATH"))
    folders.insert(folders.begin(), named);
  const auto toolchain = MakeNvrtcToolchain({.library_dirs = folders});
  std::vector<std::string> flags = UnitFlags(*TargetFromName(arch));
  flags.insert(flags.end(), {"--ptxas-options=-v"});
  size_t number = 0;
  for (const auto& [source, file] : work.units) {
    if (number++ % step != first) continue;
    ASSIGN_OR_RETURN(const auto built, toolchain->Build(source, flags));
    ReadReport(built.log, file, kernels);
  }
  return absl::OkStatus();
}

absl::StatusOr<Kernels> BuildAll(const Work& work, const std::string& arch,
                                 size_t threads) {
  std::vector<Kernels> found(threads);
  std::vector<absl::Status> done(threads);
  std::vector<std::thread> builders;
  for (size_t t = 0; t < threads; ++t) {
    builders.emplace_back(
        [&, t] { done[t] = BuildUnits(work, arch, t, threads, found[t]); });
  }
  for (std::thread& builder : builders) builder.join();
  Kernels kernels;
  for (size_t t = 0; t < threads; ++t) {
    RETURN_IF_ERROR(done[t]);
    kernels.insert(found[t].begin(), found[t].end());
  }
  for (auto& [symbol, kernel] : kernels) {
    const auto at = work.priced.find(symbol);
    if (at != work.priced.end()) kernel.priced = at->second;
  }
  return kernels;
}

// The kernels with the largest positive value of `worth`, at most `most`.
template <typename F>
void Print(const char* title, const Kernels& kernels, size_t most, F worth) {
  std::vector<std::pair<int, std::string>> worst;
  for (const auto& [symbol, kernel] : kernels)
    if (worth(kernel) > 0) worst.emplace_back(-worth(kernel), symbol);
  std::sort(worst.begin(), worst.end());
  if (worst.size() > most) worst.resize(most);
  std::printf("%s\n%-9s %-9s %-9s %s\n", title, "spilled", "registers",
              "priced", "kernel (file)");
  for (const auto& [value, symbol] : worst) {
    const Kernel& kernel = kernels.at(symbol);
    std::printf("%-9d %-9d %-9d %s (%s)\n", kernel.spilled, kernel.registers,
                kernel.priced, symbol.c_str(), kernel.file.c_str());
  }
}

void PrintFamilies(const Kernels& kernels) {
  struct Family {
    int kernels = 0, spilling = 0, bytes = 0, most_registers = 0;
    int priced = 0, above = 0;
    double logs = 0;  // of registers over priced ones
  };
  std::map<std::string, Family> families;
  for (const auto& [symbol, kernel] : kernels) {
    Family& family = families[FamilyOf(symbol)];
    ++family.kernels;
    family.most_registers = std::max(family.most_registers, kernel.registers);
    family.spilling += kernel.spilled > 0;
    family.bytes += kernel.spilled;
    if (kernel.priced == 0) continue;
    ++family.priced;
    family.logs += std::log(double(kernel.registers) / kernel.priced);
    family.above += kernel.registers > kernel.priced * 5 / 4;
  }
  std::printf("\n%-9s %-9s %-9s %-9s %-9s %-9s %s\n", "family", "kernels",
              "spilling", "bytes", "most", "mean/pr.", "more than 1.25 priced");
  for (const auto& [name, family] : families) {
    const double mean =
        family.priced > 0 ? std::exp(family.logs / family.priced) : 0;
    std::printf("%-9s %-9d %-9d %-9d %-9d %-9.2f %d\n", name.c_str(),
                family.kernels, family.spilling, family.bytes,
                family.most_registers, mean, family.above);
  }
}

int Report(const std::vector<std::string>& paths, const std::string& arch,
           int threads) {
  Work work;
  for (const std::string& path : paths) {
    const absl::Status added = AddFile(path, arch, work);
    if (added.ok()) continue;
    std::fprintf(stderr, "%s: %s\n", path.c_str(), added.ToString().c_str());
    return 1;
  }
  const auto kernels = BuildAll(work, arch, static_cast<size_t>(threads));
  if (!kernels.ok()) {
    std::fprintf(stderr, "%s\n", kernels.status().ToString().c_str());
    return 1;
  }
  Print("kernels that spill:", *kernels, kernels->size(),
        [](const Kernel& kernel) { return kernel.spilled; });
  Print("\nfurthest above their price:", *kernels, 10,
        [](const Kernel& kernel) {
          return kernel.priced == 0 ? 0 : kernel.registers - kernel.priced;
        });
  PrintFamilies(*kernels);
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

// The kernels of graphs in text, each in many of its configurations, built for a
// GPU and written out with their prices. bench/kernel_prices.py times them there
// and sets times beside prices.
//
//   kernel_prices [--arch=sm_90] [--threads=2] [--within=3] [--most=24]
//                 [--prices-only] OUT FILE...
//
// Of a kernel's configurations those that fit and whose price is at most
// `within` times the cheapest one's, the `most` cheapest of them; the chosen one
// first. Attention is computed by kernels of Kiln's own, which have no prices: all
// mappings of them. OUT, a folder, gets N.cubin for each and `kernels.jsonl`, a line
// each. With --prices-only nothing is built: prices to set beside times that were
// taken before.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compiler/ir_driver.h"
#include "compiler/schedule/flash_configs.h"
#include "compiler/schedule/plan_pipeline.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/tune/measure_flash.h"
#include "compiler/tune/measure_kernel.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct Options {
  std::string arch = "sm_90";
  int threads = 2;
  double within = 3;
  int most = 24;
  bool build = true;
  std::string out;
  std::vector<std::string> files;
};

// Takes what a measurement would launch.
class Recorder final : public Stopwatch {
 public:
  absl::StatusOr<double> MedianSeconds(const TimedKernel& kernel,
                                       int repeats) override {
    kernel_ = kernel;
    return 1.0;
  }
  const TimedKernel& kernel() const { return kernel_; }

 private:
  TimedKernel kernel_;
};

class Book {
 public:
  explicit Book(const std::string& folder)
      : folder_(folder), lines_(folder + "/kernels.jsonl") {}

  // `price`: null for what has none.
  void Add(const std::string& file, const std::string& label,
           const std::string& config, const Price* price,
           const TimedKernel& kernel) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string image = absl::StrCat(count_++, ".cubin");
    if (!kernel.image.empty()) {
      std::ofstream(absl::StrCat(folder_, "/", image), std::ios::binary)
          << kernel.image;
    }
    std::string priced;
    if (price != nullptr) {
      priced = absl::StrCat(
          "\"price\": ", price->ns, ", \"memory\": ", price->memory_ns,
          ", \"issue\": ", price->issue_ns,
          ", \"latency\": ", price->latency_ns, ", \"bytes\": ", price->bytes,
          ", \"registers\": ", price->registers, ", ");
    }
    lines_ << absl::StrCat(
        "{\"file\": \"", file, "\", \"kernel\": \"", label,
        "\", \"config\": \"", config, "\", \"image\": \"", image,
        "\", \"symbol\": \"", kernel.symbol, "\", ", priced, "\"buffers\": [",
        absl::StrJoin(kernel.buffer_bytes, ", "), "], \"scalars\": [",
        absl::StrJoin(kernel.scalars, ", "), "], \"order\": [",
        absl::StrJoin(kernel.order, ", "), "], \"grid\": [",
        absl::StrJoin(kernel.grid, ", "), "], \"block\": [",
        absl::StrJoin(kernel.block, ", "),
        "], \"shared\": ", kernel.shared_bytes, "}\n");
  }

 private:
  std::mutex mutex_;
  const std::string folder_;
  std::ofstream lines_;
  int count_ = 0;
};

std::vector<KernelConfig> Cheapest(const ConfigSpace& space,
                                   const Options& options) {
  std::vector<KernelConfig> chosen;
  for (const KernelConfig& config : space.configs()) {
    if (config.price.fits &&
        config.price.ns <= space.cheapest().price.ns * options.within) {
      chosen.push_back(config);
    }
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const KernelConfig& a, const KernelConfig& b) {
                     return a.price.ns < b.price.ns;
                   });
  if (chosen.size() > static_cast<size_t>(options.most))
    chosen.resize(options.most);
  return chosen;
}

// Calls measure(choices, stopwatch), and notes what it would have launched.
template <typename Measure>
void Record(const std::string& path, Book& book, const std::string& label,
            const std::string& config, const Price* price, Measure measure) {
  Recorder recorder;
  const absl::StatusOr<Measurement> measured =
      measure(MeasureOptions{.choices = {config}, .repeats = 1}, recorder);
  if (measured.ok()) {
    book.Add(path.substr(path.rfind('/') + 1), label, config, price,
             recorder.kernel());
  } else {
    std::fprintf(stderr, "%s: %s\n", path.c_str(),
                 measured.status().ToString().c_str());
  }
}

absl::Status WriteFile(const std::string& path, const Options& options,
                       Toolchain& toolchain, Book& book) {
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  ASSIGN_OR_RETURN(Ir ir, ParseIr(text));
  PassEnv env;
  ASSIGN_OR_RETURN(env.target, TargetFromName(options.arch));
  env.options.artifact.own_attention = true;
  std::vector<PassRecord> records;
  for (const char* word : {"graph_pipeline", "lower_graph"})
    RETURN_IF_ERROR(RunWord(word, ir, env, records));
  ASSIGN_OR_RETURN(
      const KernelPlan plan,
      PlanNests(std::get<LoopProgram>(std::move(ir)), env, records));
  std::set<std::string> met;  // a graph's kernels of one key count once
  for (const PlannedStep& step : plan.steps) {
    if (const auto* flash = std::get_if<FlashKernel>(&step)) {
      const std::string key = TuningKey(*flash, plan.shapes, env.target);
      if (!options.build || !met.insert(key).second) continue;
      for (const CudaFlash& config : FlashConfigs(*flash, env.target)) {
        Record(path, book,
               absl::StrCat(flash->label, " ", PartName(flash->part)),
               ToText(KernelVariant(config)), nullptr,
               [&](const MeasureOptions& one, Stopwatch& stopwatch) {
                 return MeasureFlash(*flash, plan, env.target, key, one,
                                     toolchain, stopwatch);
               });
      }
    }
    const auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    ASSIGN_OR_RETURN(const ConfigSpace space, ConfigsOf(*kernel, plan, env));
    const std::string key = space.Key();
    if (key.empty() || !met.insert(key).second) continue;
    for (const KernelConfig& config : Cheapest(space, options)) {
      Record(path, book, kernel->label, ToText(config), &config.price,
             [&](const MeasureOptions& one,
                 Stopwatch& stopwatch) -> absl::StatusOr<Measurement> {
               if (!options.build) return Measurement();
               return MeasureKernel(plan, env, key, one, toolchain, stopwatch);
             });
    }
  }
  return absl::OkStatus();
}

int Run(const Options& options) {
  Book book(options.out);
  std::atomic<size_t> next = 0;
  std::atomic<int> failed = 0;
  std::vector<std::thread> builders;
  for (int t = 0; t < options.threads; ++t) {
    builders.emplace_back([&] {
      std::vector<std::string> folders = UsualCudaFolders();
      if (const char* named = std::getenv("KILN_CUDA_LIBRARY_PATH"))
        folders.insert(folders.begin(), named);
      const auto toolchain = MakeNvrtcToolchain({.library_dirs = folders});
      for (size_t i = next++; i < options.files.size(); i = next++) {
        const absl::Status written =
            WriteFile(options.files[i], options, *toolchain, book);
        if (written.ok()) continue;
        ++failed;
        std::fprintf(stderr, "%s: %s\n", options.files[i].c_str(),
                     written.ToString().c_str());
      }
    });
  }
  for (std::thread& builder : builders) builder.join();
  return failed > 0 ? 1 : 0;
}

int Main(int argc, char** argv) {
  Options options;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--arch=")) {
      options.arch = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--threads=")) {
      options.threads = std::max(1, std::atoi(std::string(argument).c_str()));
    } else if (absl::ConsumePrefix(&argument, "--within=")) {
      options.within = std::atof(std::string(argument).c_str());
    } else if (absl::ConsumePrefix(&argument, "--most=")) {
      options.most = std::max(1, std::atoi(std::string(argument).c_str()));
    } else if (argument == "--prices-only") {
      options.build = false;
    } else {
      names.emplace_back(argument);
    }
  }
  if (names.size() < 2) {
    std::fprintf(stderr,
                 "usage: %s [--arch=sm_90] [--threads=2] [--within=3] "
                 "[--most=24] [--prices-only] OUT FILE...\n",
                 argv[0]);
    return 2;
  }
  options.out = names[0];
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  if (error) {
    std::fprintf(stderr, "kernel_prices: %s: %s\n", options.out.c_str(),
                 error.message().c_str());
    return 1;
  }
  options.files.assign(names.begin() + 1, names.end());
  return Run(options);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }

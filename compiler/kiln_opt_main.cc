// kiln-opt: the developer's microscope. IR text or a corpus case in, named
// passes, text out.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/config/compile_options_from_text.h"
#include "compiler/config/target.h"
#include "compiler/config/tuning_table.h"
#include "compiler/graph/graph_import.h"
#include "compiler/ir_driver.h"
#include "compiler/kiln_opt_run.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_bytes.h"
#include "proto/corpus/corpus_case.h"

namespace kiln {
namespace {

constexpr absl::string_view kUsage = R"(kiln-opt FILE [PASS...] [options]

  FILE            a graph, loops, a kernel plan or a launch plan as text,
                  NAME.jsonl[.zst] of a corpus, or -
  PASS            run in the order given; `kiln-opt --help` lists them

  --case=NAME     which case of a corpus file; without it the first
  --emit=LEVEL    graph, loops, kernels, plan, cuda or cpu: runs all that leads
                  there from a graph
  --explain-tiling   instead of a level: the variants that each kernel may have,
                  with their prices, the chosen one marked by a star; in front
                  the key of its tuning decisions and the decision in force;
                  first of all the keys of steps that may be computed in more
                  than one way
  --explain-fusion   the producers that are not computed where they are read,
                  then the pairs of loops that share no kernel, and why
  --explain-contraction   who computes each product and convolution, and why
  --target=NAME   sm_90, x86-64-v3, ...; without it x86-64-v3, or sm_90 for cuda
  --options=A=1,B=0   options of the compile, by their names on the wire
  --tune="KEY CHOICE"   a tuning decision; may be given again
  --skip=A,B      leaves passes out
  --run           runs the graph with the reference interpreter instead of
                  printing it, and compares where the case has results
  --seed=N        of random inputs and operators
  --dump          prints the text after each pass
  --time          prints what each pass took, to stderr

Exit code: 0 done, 1 refused or failed, 2 used wrongly or a text that cannot be
read.
)";

struct Config {
  std::string file;
  std::vector<std::string> words;
  std::string case_name, emit, target;
  PassRunOptions run_options;
  TuningTable tuning;
  CompileOptions options;
  bool run = false, dump = false, time = false, help = false;
  uint64_t seed = 0;
};

// "KEY CHOICE", as a CompilePlan names a decision.
absl::Status ReadDecision(absl::string_view text, TuningTable& tuning) {
  const std::pair<std::string, std::string> decision =
      absl::StrSplit(text, absl::MaxSplits(' ', 1));
  if (decision.first.empty() || decision.second.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tune=", text,
                     ": expected a key of --explain-tiling, a blank and a "
                     "variant"));
  }
  tuning[decision.first] = decision.second;
  return absl::OkStatus();
}

// Takes the level of --emit or --explain-*, of which there may be one.
absl::Status SetLevel(absl::string_view level, absl::string_view flag,
                      Config& config) {
  if (!config.emit.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": found ", config.emit, " before it, expected one ",
                     "of --emit and --explain-*"));
  }
  config.emit = std::string(level);
  return absl::OkStatus();
}

absl::StatusOr<Config> ReadFlags(int argc, char** argv) {
  Config config;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view flag = argv[i];
    absl::string_view arg = flag;
    if (absl::ConsumePrefix(&arg, "--case=")) {
      config.case_name = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--emit=")) {
      RETURN_IF_ERROR(SetLevel(arg, flag, config));
    } else if (absl::ConsumePrefix(&arg, "--target=")) {
      config.target = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--skip=")) {
      config.run_options.skip = absl::StrSplit(arg, ',', absl::SkipEmpty());
    } else if (absl::ConsumePrefix(&arg, "--tune=")) {
      RETURN_IF_ERROR(ReadDecision(arg, config.tuning));
    } else if (absl::ConsumePrefix(&arg, "--options=")) {
      ASSIGN_OR_RETURN(config.options, CompileOptionsFromText(arg));
    } else if (absl::ConsumePrefix(&arg, "--seed=")) {
      if (!absl::SimpleAtoi(arg, &config.seed)) {
        return absl::InvalidArgumentError(absl::StrCat(
            flag, ": found \"", arg, "\", expected a number of at least 0"));
      }
    } else if (arg == "--explain-tiling" || arg == "--explain-fusion" ||
               arg == "--explain-contraction") {
      RETURN_IF_ERROR(SetLevel(arg.substr(2), flag, config));
    } else if (arg == "--run") {
      config.run = true;
    } else if (arg == "--dump") {
      config.dump = true;
    } else if (arg == "--time") {
      config.time = true;
    } else if (arg == "--help") {
      config.help = true;
    } else if (absl::StartsWith(arg, "--")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "option ", arg,
          ": not known; --help lists them, values stand behind \"=\""));
    } else if (config.file.empty()) {
      config.file = std::string(arg);
    } else {
      config.words.push_back(std::string(arg));
    }
  }
  if (config.file.empty() && !config.help) {
    return absl::InvalidArgumentError("FILE is missing; --help says more");
  }
  return config;
}

// The words that lead to a level, appended to those that were given.
absl::Status AddWordsFor(absl::string_view level, Config& config) {
  struct Level {
    absl::string_view name;
    std::vector<absl::string_view> words;
  };
  const Level levels[] = {
      {"", {}},
      {"graph", {"graph_pipeline"}},
      {"loops", {"graph_pipeline", "lower_graph"}},
      {"kernels", {"graph_pipeline", "lower_graph", "plan_kernels"}},
      {"plan", {"graph_pipeline", "emit_plan"}},
      {"cuda",
       {"graph_pipeline", "lower_graph", "plan_kernels", "write_kernels"}},
      {"explain-tiling",
       {"graph_pipeline", "lower_graph", "plan_nests", "explain_tiling"}},
      {"explain-fusion", {"graph_pipeline", "lower_graph", "explain_fusion"}},
      {"explain-contraction",
       {"graph_pipeline", "lower_graph", "explain_contraction"}},
      {"cpu",
       {"graph_pipeline", "lower_graph", "plan_kernels", "write_kernels"}}};
  for (const Level& row : levels) {
    if (row.name != level) continue;
    for (const absl::string_view word : row.words)
      config.words.emplace_back(word);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--emit=", level, ": expected graph, loops, kernels, plan, cuda or cpu"));
}

// Only passes over graphs can be left out; the others lead to the next level.
absl::Status CheckSkip(const std::vector<std::string>& skip) {
  const std::vector<std::string> known = GraphPassNames();
  for (const std::string& name : skip) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--skip=", name, ": found no such pass, expected one of ",
                     absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

// The target that was named, or the one that goes with what is printed.
absl::StatusOr<Target> ReadTarget(const Config& config) {
  const bool cuda = config.emit == "cuda";
  if (config.target.empty())
    return TargetFromName(cuda ? "sm_90" : "x86-64-v3");
  ASSIGN_OR_RETURN(Target target, TargetFromName(config.target));
  const TargetKind due = cuda ? TargetKind::kCuda : TargetKind::kCpu;
  if ((cuda || config.emit == "cpu") && target.kind != due) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--target=", config.target, " with --emit=", config.emit, ": found ",
        cuda ? "a level of processors, expected an sm_ architecture"
             : "a GPU architecture, expected x86-64-v3 or another level"));
  }
  return target;
}

struct Loaded {
  Ir ir;
  CorpusCase test_case;
};

absl::StatusOr<Loaded> Load(const Config& config) {
  if (absl::EndsWith(config.file, ".jsonl") ||
      absl::EndsWith(config.file, ".jsonl.zst")) {
    const absl::string_view path = absl::StripSuffix(config.file, ".zst");
    ASSIGN_OR_RETURN(std::vector<CorpusCase> cases,
                     ReadCorpusFile(std::string(path)));
    for (CorpusCase& test_case : cases) {
      if (!config.case_name.empty() && test_case.name != config.case_name) {
        continue;
      }
      RETURN_IF_ERROR(test_case.readable);
      ASSIGN_OR_RETURN(Graph graph, ImportGraph(test_case.graph));
      return Loaded{Ir(std::move(graph)), std::move(test_case)};
    }
    std::vector<std::string> names;
    for (const CorpusCase& test_case : cases) names.push_back(test_case.name);
    return absl::NotFoundError(
        absl::StrCat("case ", config.case_name, ": not in ", config.file,
                     ", which has ", absl::StrJoin(names, ", ")));
  }
  std::string text;
  if (config.file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    ASSIGN_OR_RETURN(text, ReadCorpusBytes(config.file));
  }
  ASSIGN_OR_RETURN(Ir ir, ParseIr(text));
  CorpusCase test_case;
  if (const Graph* graph = std::get_if<Graph>(&ir)) test_case = CaseOf(*graph);
  return Loaded{std::move(ir), std::move(test_case)};
}

// The tuning keys of the steps that `word` decides about in `ir`. Empty for a word that
// decides nothing.
absl::StatusOr<std::vector<std::string>> KeysFor(
    absl::string_view word, Ir ir, const PassEnv& env,
    const PassRunOptions& options) {
  static constexpr absl::string_view kDeciding[] = {
      "plan_nests", "plan_kernels", "emit_plan", "explain_fusion",
      "explain_contraction"};
  std::vector<std::string> words;
  if (std::find(std::begin(kDeciding), std::end(kDeciding), word) !=
      std::end(kDeciding)) {
    if (word == "emit_plan") words.push_back("lower_graph");
    words.insert(words.end(), {"plan_nests", "explain_tiling"});
  } else if (word == "choose_variants" || word == "explain_tiling") {
    words.push_back("explain_tiling");
  }
  std::vector<std::string> keys;
  if (words.empty()) return keys;
  std::vector<PassRecord> records;
  for (const std::string& each : words)
    RETURN_IF_ERROR(RunWord(each, ir, env, records, options));
  const std::string text = PrintIr(ir);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, "  key ")) keys.emplace_back(line);
  }
  return keys;
}

// Runs the words of `config`. A tuning decision about no step of theirs is an error.
absl::Status RunWords(const Config& config, const PassEnv& env, Ir& ir,
                      std::vector<PassRecord>& records) {
  std::set<std::string> keys;
  for (const std::string& word : config.words) {
    if (!config.tuning.empty()) {
      ASSIGN_OR_RETURN(const std::vector<std::string> more,
                       KeysFor(word, ir, env, config.run_options));
      keys.insert(more.begin(), more.end());
    }
    RETURN_IF_ERROR(RunWord(word, ir, env, records, config.run_options));
  }
  for (const auto& [key, choice] : config.tuning) {
    if (keys.contains(key)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--tune=", key, " ", choice, ": found no step with the key ", key,
        keys.empty()
            ? ", as nothing is chosen here"
            : absl::StrCat(", expected one of ", absl::StrJoin(keys, ", "))));
  }
  return absl::OkStatus();
}

// Whether the flags or what they name are to blame.
bool IsMisuse(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ||
         absl::IsPermissionDenied(status) || absl::IsDataLoss(status);
}

absl::Status Main(int argc, char** argv) {
  ASSIGN_OR_RETURN(Config config, ReadFlags(argc, argv));
  if (config.help) {
    std::cout << kUsage << "\nPasses: " << absl::StrJoin(KnownWords(), ", ")
              << "\n";
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(AddWordsFor(config.emit, config));
  RETURN_IF_ERROR(CheckSkip(config.run_options.skip));
  PassEnv env;
  ASSIGN_OR_RETURN(env.target, ReadTarget(config));
  env.tuning = config.tuning;
  env.options = config.options;
  env.options.diagnostic = {.dump_passes = config.dump, .verify_passes = true};
  ASSIGN_OR_RETURN(Loaded loaded, Load(config));
  std::vector<PassRecord> records;
  RETURN_IF_ERROR(RunWords(config, env, loaded.ir, records));
  for (const PassRecord& record : records) {
    if (config.time) {
      std::fprintf(stderr, "%8.3f ms  %s\n",
                   absl::ToDoubleMilliseconds(record.duration),
                   record.name.c_str());
    }
    if (!record.dump.empty()) {
      std::cout << "// after " << record.name << "\n" << record.dump << "\n";
    }
  }
  const Graph* graph = std::get_if<Graph>(&loaded.ir);
  if (config.run && graph != nullptr) {
    ASSIGN_OR_RETURN(const std::string text,
                     RunForPeople(*graph, loaded.test_case, config.seed));
    std::cout << text;
  } else if (!config.dump) {
    std::cout << PrintIr(loaded.ir);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  const absl::Status status = kiln::Main(argc, argv);
  if (status.ok()) return 0;
  std::cerr << "kiln-opt: " << status.message() << "\n";
  return kiln::IsMisuse(status) ? 2 : 1;
}

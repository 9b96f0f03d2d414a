#include "tests/support/ir_test.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/config/compile_options_from_text.h"
#include "compiler/ir_driver.h"

namespace kiln {
namespace {

struct Expectation {
  enum class Kind { kCheck, kNext, kNot, kError };
  Kind kind;
  std::string text;
};

struct IrTest {
  int line = 0;
  std::string target = "x86-64-v3";
  std::string options;
  std::vector<std::string> words;
  std::string text;
  std::vector<Expectation> expectations;
};

std::string Stripped(absl::string_view text) {
  return std::string(absl::StripAsciiWhitespace(text));
}

std::vector<IrTest> SplitTests(absl::string_view file_text) {
  constexpr std::pair<absl::string_view, Expectation::Kind> kDirectives[] = {
      {"// check:", Expectation::Kind::kCheck},
      {"// next:", Expectation::Kind::kNext},
      {"// not:", Expectation::Kind::kNot},
      {"// error:", Expectation::Kind::kError}};
  std::vector<IrTest> tests;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(file_text, '\n')) {
    ++number;
    absl::string_view rest = absl::StripAsciiWhitespace(line);
    if (absl::ConsumePrefix(&rest, "// run:")) {
      tests.emplace_back();
      tests.back().line = number;
      for (absl::string_view word :
           absl::StrSplit(rest, absl::ByAnyChar(", "), absl::SkipEmpty())) {
        tests.back().words.emplace_back(word);
      }
      continue;
    }
    if (tests.empty()) continue;
    if (absl::ConsumePrefix(&rest, "// target:")) {
      tests.back().target = Stripped(rest);
      continue;
    }
    if (absl::ConsumePrefix(&rest, "// options:")) {
      tests.back().options = Stripped(rest);
      continue;
    }
    bool directive = false;
    for (const auto& [prefix, kind] : kDirectives) {
      if (!absl::ConsumePrefix(&rest, prefix)) continue;
      tests.back().expectations.push_back({kind, Stripped(rest)});
      directive = true;
      break;
    }
    if (!directive) absl::StrAppend(&tests.back().text, line, "\n");
  }
  return tests;
}

absl::StatusOr<std::string> RunTest(const IrTest& test) {
  PassEnv env;
  auto target = TargetFromName(test.target);
  if (!target.ok()) return target.status();
  env.target = *std::move(target);
  auto options = CompileOptionsFromText(test.options);
  if (!options.ok()) return options.status();
  env.options = *std::move(options);
  env.options.diagnostic.verify_passes = true;
  auto ir = ParseIr(test.text);
  if (!ir.ok()) return ir.status();
  std::vector<PassRecord> records;
  for (const std::string& word : test.words) {
    const absl::Status status =
        RunWord(word, *ir, env, records, {.check_changed = true});
    if (!status.ok()) return status;
  }
  return PrintIr(*ir);
}

// Empty when `text` is as expected.
std::string Compare(const IrTest& test, absl::string_view text) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    lines.push_back(Stripped(line));
  }
  size_t at = 0;
  for (const Expectation& e : test.expectations) {
    switch (e.kind) {
      case Expectation::Kind::kCheck:
        while (at < lines.size() && !absl::StrContains(lines[at], e.text)) {
          ++at;
        }
        if (at == lines.size()) return absl::StrCat("no line: ", e.text);
        ++at;
        break;
      case Expectation::Kind::kNext:
        if (at >= lines.size() || !absl::StrContains(lines[at], e.text)) {
          return absl::StrCat(
              "next line is: ", at < lines.size() ? lines[at] : "(end)",
              "\n  due: ", e.text);
        }
        ++at;
        break;
      case Expectation::Kind::kNot:
        if (absl::StrContains(text, e.text)) {
          return absl::StrCat("should not hold: ", e.text);
        }
        break;
      case Expectation::Kind::kError:
        return absl::StrCat("should fail: ", e.text);
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> RunIrTests(absl::string_view file_text) {
  std::vector<std::string> wrong;
  const std::vector<IrTest> tests = SplitTests(file_text);
  if (tests.empty()) wrong.push_back("no `// run:` line");
  for (const IrTest& test : tests) {
    const absl::StatusOr<std::string> result = RunTest(test);
    std::string problem;
    if (result.ok()) {
      problem = Compare(test, *result);
      if (!problem.empty()) absl::StrAppend(&problem, "\nin\n", *result);
    } else {
      const bool due = !test.expectations.empty() &&
                       test.expectations[0].kind == Expectation::Kind::kError &&
                       absl::StrContains(result.status().message(),
                                         test.expectations[0].text);
      if (!due) problem = std::string(result.status().message());
    }
    if (!problem.empty()) {
      wrong.push_back(absl::StrCat("line ", test.line, ": ", problem));
    }
  }
  return wrong;
}

}  // namespace kiln

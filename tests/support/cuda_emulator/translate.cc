#include "tests/support/cuda_emulator/translate.h"

#include <cctype>
#include <regex>
#include <vector>

namespace kiln_emulator {
namespace {

// The end of the text literal that begins at `at`.
size_t PastText(const std::string& s, size_t at) {
  for (++at; at < s.size() && s[at] != '"'; ++at)
    if (s[at] == '\\') ++at;
  return at + 1;
}

// From behind an opening parenthesis to its closing one.
size_t ClosingOf(const std::string& s, size_t at) {
  for (int open = 1; at < s.size();) {
    if (s[at] == '"') {
      at = PastText(s, at);
      continue;
    }
    if (s[at] == '(') ++open;
    if (s[at] == ')' && --open == 0) return at;
    ++at;
  }
  return s.size();
}

// "cp.async.wait_group %0;" is cp_async_wait_group.
std::string FunctionOf(const std::string& text) {
  std::string name;
  for (char c : text) {
    if (c == ' ' || c == ';') break;
    name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  return name.empty() ? "nothing" : name;
}

// What stands between an asm statement's parentheses.
std::string CallOf(const std::string& statement) {
  const size_t first = statement.find('"');
  const size_t end = PastText(statement, first);
  std::string call = "kiln_emulator::ptx::" +
                     FunctionOf(statement.substr(first + 1, end - first - 2)) +
                     "(";
  // Operands are "constraint"(value); clobbers have no value.
  bool any = false;
  for (size_t at = end; at < statement.size();) {
    if (statement[at] != '"') {
      ++at;
      continue;
    }
    at = PastText(statement, at);
    while (at < statement.size() && statement[at] == ' ') ++at;
    if (at >= statement.size() || statement[at] != '(') continue;
    const size_t close = ClosingOf(statement, at + 1);
    call += (any ? ", " : "") + statement.substr(at + 1, close - at - 1);
    any = true;
    at = close;
  }
  return call + ")";
}

std::string WithoutAsm(const std::string& source) {
  static const std::regex kAsm(R"(\basm( volatile)?\()");
  std::string out;
  auto at = source.cbegin();
  std::smatch found;
  while (std::regex_search(at, source.cend(), found, kAsm)) {
    out.append(at, found[0].first);
    const size_t inside = static_cast<size_t>(found[0].second - source.begin());
    const size_t close = ClosingOf(source, inside);
    out += CallOf(source.substr(inside, close - inside));
    at = source.begin() + static_cast<std::ptrdiff_t>(close) + 1;
  }
  out.append(at, source.cend());
  return out;
}

std::string KernelSymbols(const std::string& source) {
  static const std::regex kKernel(
      R"(__global__ void (?:__launch_bounds__\([^)]*\) )?)"
      R"((?:__cluster_dims__\((\d+)[^)]*\) )?(\w+)\()");
  std::string out;
  for (std::sregex_iterator it(source.begin(), source.end(), kKernel), end;
       it != end; ++it) {
    const std::string cluster = (*it)[1].matched ? (*it)[1].str() : "1";
    const std::string name = (*it)[2];
    out += "extern \"C\" int kiln_emulator_cluster_" + name + " = " + cluster +
           ";\nextern \"C\" void kiln_emulator_call_" + name +
           "(void** p) { kiln_emulator::CallKernel(" + name + ", p); }\n";
  }
  return out;
}

}  // namespace

std::string TranslateToHost(const std::string& source) {
  static const std::regex kDynamic(R"(extern __shared__ ([^;]*?) (\w+)\[\];)");
  return std::regex_replace(
             WithoutAsm(source), kDynamic,
             "$1* const $2 = ($1*)kiln_emulator::host->dynamic_shared();") +
         KernelSymbols(source);
}

}  // namespace kiln_emulator

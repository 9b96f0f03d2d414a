#include "compiler/codegen/prelude.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace kiln {
namespace {

absl::string_view CTypeOf(absl::string_view ending) {
  static constexpr std::pair<absl::string_view, absl::string_view> kTypes[] = {
      {"b", "bool"},
      {"u8", "unsigned char"},
      {"i8", "signed char"},
      {"i16", "short"},
      {"u16", "unsigned short"},
      {"i32", "int"},
      {"u32", "unsigned int"},
      {"i64", "long long"},
      {"u64", "unsigned long long"},
      {"f32", "float"},
      {"f64", "double"}};
  for (const auto& [name, type] : kTypes)
    if (name == ending) return type;
  return "";
}

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

class Collector {
 public:
  Collector(
      absl::Span<const PreludePart> parts,
      absl::Span<const std::pair<absl::string_view, std::string>> variables)
      : parts_(parts), variables_(variables) {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].types.empty()) {
        by_name_[std::string(parts[i].stem)] = {i, ""};
        continue;
      }
      for (absl::string_view type : absl::StrSplit(parts[i].types, ' '))
        by_name_[absl::StrReplaceAll(parts[i].stem, {{"$T", type}})] = {i,
                                                                        type};
    }
  }

  // Adds every part that a word of `text` names.
  void Visit(absl::string_view text) {
    size_t i = 0;
    while (i < text.size()) {
      if (!IsWordCharacter(text[i])) {
        ++i;
        continue;
      }
      const size_t start = i;
      while (i < text.size() && IsWordCharacter(text[i])) ++i;
      const absl::string_view word = text.substr(start, i - start);
      // All names of the preludes begin so.
      if (word[0] == 'k' || word[0] == 'K') Add(word);
    }
  }

  std::string Take() { return std::move(out_); }

 private:
  void Add(absl::string_view word) {
    const auto found = by_name_.find(word);
    if (found == by_name_.end() || !done_.insert(found->first).second) return;
    const auto [index, type] = found->second;
    std::string text(parts_[index].text);
    if (!type.empty())
      text = absl::StrReplaceAll(text, {{"$T", type},
                                        {"$C", CTypeOf(type)},
                                        {"$S", type == "f32" ? "f" : ""}});
    for (const auto& [name, value] : variables_)
      text = absl::StrReplaceAll(text, {{name, value}});
    Visit(text);
    out_ += text;
    if (!out_.empty() && out_.back() != '\n') out_ += '\n';
  }

  absl::Span<const PreludePart> parts_;
  absl::Span<const std::pair<absl::string_view, std::string>> variables_;
  absl::flat_hash_map<std::string, std::pair<size_t, absl::string_view>>
      by_name_;
  absl::flat_hash_set<absl::string_view> done_;
  std::string out_;
};

}  // namespace

std::string PreludeFor(
    absl::string_view source, absl::Span<const PreludePart> parts,
    absl::Span<const std::pair<absl::string_view, std::string>> variables) {
  Collector collector(parts, variables);
  collector.Visit(source);
  return collector.Take();
}

}  // namespace kiln

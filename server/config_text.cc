#include "server/config_text.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/duration_text.h"
#include "proto/base/status.h"
#include "proto/base/toml_letters.h"
// toml++ asserts that a table's name begins as one may ("[#x]"), and then refuses
// one that does not, which is what is wanted.
#define TOML_ASSERT(expression) static_assert(true)
#include "toml++/toml.h"

namespace kiln {
namespace {

// The example with all its comments has 4 KiB.
constexpr uintmax_t kMaxConfigBytes = uintmax_t{1} << 20;

absl::Status Refuse(absl::string_view where, absl::string_view what) {
  return MakeError(ErrorReason::kBadOption, absl::StrCat(where, ": ", what));
}

// Where one word of the file goes.
using Place = std::variant<std::string*, bool*, int64_t*, absl::Duration*,
                           std::vector<std::string>*>;
struct Word {
  absl::string_view table;
  absl::string_view name;
  Place place;
};

// Every word there is, in the order in which they are printed.
std::vector<Word> WordsOf(Config& c) {
  std::vector<Word> words;
  const auto table =
      [&words](absl::string_view name,
               std::initializer_list<std::pair<absl::string_view, Place>> all) {
        for (const auto& [word, place] : all)
          words.push_back({name, word, place});
      };
  table("listen", {{"socket", &c.socket},
                   {"tcp", &c.tcp},
                   {"tcp_plain", &c.tcp_plain},
                   {"tls_certificate", &c.tls_certificate},
                   {"tls_key", &c.tls_key},
                   {"tls_client_ca", &c.tls_client_ca},
                   {"max_message_bytes", &c.max_message_bytes},
                   {"max_waiting_calls", &c.max_waiting_calls},
                   {"peer_handshakes_a_second", &c.peer_handshakes_a_second},
                   {"max_lookups", &c.max_lookups},
                   {"max_answer_bytes", &c.max_answer_bytes},
                   {"write_timeout", &c.write_timeout},
                   {"idle_exit", &c.idle_exit}});
  table("storage", {{"data_folder", &c.data_folder},
                    {"cache_budget_bytes", &c.cache_budget_bytes},
                    {"cache_budget_entries", &c.cache_budget_entries},
                    {"cache_unused", &c.cache_unused},
                    {"namespace_budgets", &c.namespace_budgets},
                    {"sync_every", &c.sync_every},
                    {"memory_tier_bytes", &c.memory_tier_bytes},
                    {"min_free_bytes", &c.min_free_bytes}});
  table("workers", {{"program", &c.worker_program},
                    {"args", &c.worker_args},
                    {"env", &c.worker_env},
                    {"count", &c.worker_count},
                    {"timeout", &c.worker_timeout},
                    {"cpu_limit", &c.worker_cpu_limit},
                    {"memory_bytes", &c.worker_memory_bytes},
                    {"sandbox", &c.worker_sandbox},
                    {"readable", &c.worker_readable}});
  table("far", {{"addresses", &c.far_addresses},
                {"peer", &c.far_peer},
                {"tls_ca", &c.far_tls_ca},
                {"tls_certificate", &c.far_tls_certificate},
                {"tls_key", &c.far_tls_key},
                {"user", &c.far_user},
                {"password_file", &c.far_password_file},
                {"token_file", &c.far_token_file},
                {"budget", &c.far_budget},
                {"lease_wait", &c.far_lease_wait},
                {"ttl", &c.far_ttl},
                {"namespace_budgets", &c.far_namespace_budgets},
                {"queue_bytes", &c.far_queue_bytes},
                {"max_record_bytes", &c.far_max_record_bytes}});
  table("keys", {{"trusted", &c.trusted_keys}});
  table("jobs", {{"queue_limit", &c.queue_limit},
                 {"poison_time", &c.poison_time},
                 {"drain_timeout", &c.drain_timeout}});
  table("log", {{"format", &c.log_format}, {"level", &c.log_level}});
  return words;
}

absl::Status Set(std::vector<std::string>& list, const toml::node& node,
                 absl::string_view where) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return Refuse(where, "expected a list of strings");
  std::vector<std::string> found;
  for (const toml::node& item : *array) {
    const auto text = item.value_exact<std::string>();
    if (!text.has_value()) return Refuse(where, "expected a list of strings");
    found.push_back(*text);
  }
  list = std::move(found);
  return absl::OkStatus();
}

absl::Status Set(bool& flag, const toml::node& node, absl::string_view where) {
  const auto found = node.value_exact<bool>();
  if (!found.has_value()) return Refuse(where, "expected true or false");
  flag = *found;
  return absl::OkStatus();
}

absl::Status Set(int64_t& number, const toml::node& node,
                 absl::string_view where) {
  const auto found = node.value_exact<int64_t>();
  if (!found.has_value()) return Refuse(where, "expected a whole number");
  number = *found;
  return absl::OkStatus();
}

absl::Status Set(std::string& text, const toml::node& node,
                 absl::string_view where) {
  const auto found = node.value_exact<std::string>();
  if (!found.has_value()) return Refuse(where, "expected a string");
  text = *found;
  return absl::OkStatus();
}

absl::Status Set(absl::Duration& duration, const toml::node& node,
                 absl::string_view where) {
  std::string text;
  RETURN_IF_ERROR(Set(text, node, where));
  if (ParseDurationText(text, &duration)) return absl::OkStatus();
  return Refuse(
      where,
      absl::StrCat("found \"", text,
                   "\", expected a duration like \"90s\", \"12h\" or \"7d\""));
}

absl::Status SetWord(const Word& word, const toml::node& node,
                     absl::string_view where) {
  const std::string subject = absl::StrCat(where, ":", node.source().begin.line,
                                           ": [", word.table, "] ", word.name);
  return std::visit([&](auto* place) { return Set(*place, node, subject); },
                    word.place);
}

absl::Status SetTable(const std::vector<Word>& words, absl::string_view table,
                      const toml::node& node, absl::string_view where) {
  const toml::table* entries = node.as_table();
  if (entries == nullptr) {
    return Refuse(where, absl::StrCat("\"", table, "\" is not a table"));
  }
  for (const auto& [key, value] : *entries) {
    const std::string name(key.str());
    const Word* match = nullptr;
    for (const Word& word : words) {
      if (word.table == table && word.name == name) match = &word;
    }
    if (match == nullptr) {
      return Refuse(where,
                    absl::StrCat("[", table, "] ", name, ": unknown word"));
    }
    RETURN_IF_ERROR(SetWord(*match, value, where));
  }
  return absl::OkStatus();
}

// A TOML string on one line. toml++ prints a string with a line break over
// several lines, and drops a break that comes first when it reads that.
std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppendFormat(&quoted, "\\u%04X", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string Printed(const std::string& text) { return Quoted(text); }
std::string Printed(bool flag) { return flag ? "true" : "false"; }
std::string Printed(int64_t number) { return absl::StrCat(number); }
std::string Printed(absl::Duration duration) {
  return Quoted(absl::FormatDuration(duration));
}
std::string Printed(const std::vector<std::string>& list) {
  return absl::StrCat("[",
                      absl::StrJoin(list, ", ",
                                    [](std::string* out, const std::string& s) {
                                      out->append(Quoted(s));
                                    }),
                      "]");
}

// The [[access]] tables.
absl::Status RefuseRule(const toml::node& node, absl::string_view where,
                        absl::string_view what) {
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat(where, ":", node.source().begin.line,
                                ": [[access]] ", what));
}

absl::StatusOr<std::vector<std::string>> NamesIn(const toml::node& node,
                                                 absl::string_view where) {
  std::vector<std::string> names;
  const toml::array* array = node.as_array();
  if (array == nullptr)
    return RefuseRule(node, where, "namespaces: expected a list of strings");
  for (const toml::node& item : *array) {
    const auto name = item.value_exact<std::string>();
    if (!name.has_value())
      return RefuseRule(node, where, "namespaces: expected a list of strings");
    names.push_back(*name);
  }
  return names;
}

absl::StatusOr<AccessRule> ReadRule(const toml::table& table,
                                    absl::string_view where) {
  AccessRule rule;
  std::optional<Role> role;
  for (const auto& [key, value] : table) {
    const std::string word(key.str());
    const std::string text = value.value_exact<std::string>().value_or("");
    if (word == "who") {
      rule.who = text;
    } else if (word == "role") {
      role = RoleNamed(text);
    } else if (word == "namespaces") {
      ASSIGN_OR_RETURN(rule.grant.namespaces, NamesIn(value, where));
    } else {
      return RefuseRule(table, where, absl::StrCat(word, ": unknown word"));
    }
  }
  if (!role.has_value()) {
    return RefuseRule(table, where,
                      "role: expected reader, submitter, publisher or admin");
  }
  rule.grant.role = *role;
  RETURN_IF_ERROR(
      Annotate(CheckAccessRule(rule),
               absl::StrCat(where, ":", table.source().begin.line)));
  return rule;
}

absl::Status ReadAccessRules(const toml::node& node, absl::string_view where,
                             std::vector<AccessRule>& rules) {
  const toml::array* list = node.as_array();
  if (list == nullptr)
    return RefuseRule(node, where,
                      "expected a list of tables, written [[access]]");
  for (const toml::node& item : *list) {
    const toml::table* table = item.as_table();
    if (table == nullptr)
      return RefuseRule(item, where,
                        "expected a list of tables, written [[access]]");
    ASSIGN_OR_RETURN(AccessRule rule, ReadRule(*table, where));
    rules.push_back(std::move(rule));
  }
  return absl::OkStatus();
}

std::string AccessRulesText(const std::vector<AccessRule>& rules) {
  std::string text;
  for (const AccessRule& rule : rules) {
    absl::StrAppend(&text, "\n[[access]]\nwho = ", Quoted(rule.who),
                    "\nrole = ", Quoted(RoleName(rule.grant.role)),
                    "\nnamespaces = [");
    absl::string_view between;
    for (const std::string& name : rule.grant.namespaces) {
      absl::StrAppend(&text, between, Quoted(name));
      between = ", ";
    }
    absl::StrAppend(&text, "]\n");
  }
  return text;
}

}  // namespace

absl::Status ReadConfigText(absl::string_view toml, absl::string_view where,
                            Config& config) {
  RETURN_IF_ERROR(CheckTomlLetters(toml, where));
  toml::table root;
  // toml++ throws on bad text; it stops here.
  try {
    root = toml::parse(std::string_view(toml.data(), toml.size()));
  } catch (const toml::parse_error& bad) {
    return Refuse(where, absl::StrCat("line ", bad.source().begin.line,
                                      ", column ", bad.source().begin.column,
                                      ": ", std::string(bad.description())));
  }
  const std::vector<Word> words = WordsOf(config);
  for (const auto& [key, value] : root) {
    const std::string table(key.str());
    if (table == "access") {
      RETURN_IF_ERROR(ReadAccessRules(value, where, config.access));
      continue;
    }
    bool known = false;
    for (const Word& word : words) known |= word.table == table;
    if (!known)
      return Refuse(where, absl::StrCat("[", table, "]: no such table"));
    RETURN_IF_ERROR(SetTable(words, table, value, where));
  }
  return absl::OkStatus();
}

absl::Status ReadConfigFile(const std::string& path, Config& config) {
  // A device or a pipe may have no end.
  std::error_code error;
  if (std::filesystem::exists(path, error) &&
      !std::filesystem::is_regular_file(path, error)) {
    return Refuse(path, "not a regular file");
  }
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMaxConfigBytes) {
    return Refuse(path,
                  absl::StrCat("found ", bytes, " bytes, expected at most ",
                               kMaxConfigBytes));
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad())
    return Refuse(path, absl::StrCat("can't be read: ", strerror(errno)));
  RETURN_IF_ERROR(ReadConfigText(text, path, config));
  config.file = std::filesystem::absolute(path, error).string();
  return absl::OkStatus();
}

std::string ConfigText(const Config& config) {
  Config copy = config;
  std::string text;
  absl::string_view table;
  for (const Word& word : WordsOf(copy)) {
    if (word.table != table) {
      absl::StrAppend(&text, table.empty() ? "" : "\n", "[", word.table, "]\n");
      table = word.table;
    }
    absl::StrAppend(
        &text, word.name, " = ",
        std::visit([](const auto* place) { return Printed(*place); },
                   word.place),
        "\n");
  }
  absl::StrAppend(&text, AccessRulesText(config.access));
  return text;
}

}  // namespace kiln

#include "server/config.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"
#include "server/tcp_address.h"
#include "toml++/toml.h"

namespace kiln {
namespace {

// The example with all its comments has 4 KiB.
constexpr uintmax_t kMaxConfigBytes = uintmax_t{1} << 20;

absl::Status Refuse(absl::string_view where, absl::string_view what) {
  return MakeError(ErrorReason::kBadOption, absl::StrCat(where, ": ", what));
}

// Where one word of the file goes; exactly one pointer is set.
struct Word {
  absl::string_view table;
  absl::string_view name;
  std::string* text = nullptr;
  int64_t* number = nullptr;
  absl::Duration* duration = nullptr;
  std::vector<std::string>* list = nullptr;
};

// Every word there is, in the order in which they are printed.
std::vector<Word> WordsOf(Config& c) {
  return {
      {.table = "listen", .name = "socket", .text = &c.socket},
      {.table = "listen", .name = "tcp", .text = &c.tcp},
      {.table = "listen",
       .name = "max_message_bytes",
       .number = &c.max_message_bytes},
      {.table = "listen",
       .name = "max_waiting_calls",
       .number = &c.max_waiting_calls},
      {.table = "listen",
       .name = "write_timeout",
       .duration = &c.write_timeout},
      {.table = "listen", .name = "idle_exit", .duration = &c.idle_exit},
      {.table = "storage", .name = "data_folder", .text = &c.data_folder},
      {.table = "storage",
       .name = "cache_budget_bytes",
       .number = &c.cache_budget_bytes},
      {.table = "storage",
       .name = "memory_tier_bytes",
       .number = &c.memory_tier_bytes},
      {.table = "storage",
       .name = "min_free_bytes",
       .number = &c.min_free_bytes},
      {.table = "workers", .name = "program", .text = &c.worker_program},
      {.table = "workers", .name = "args", .list = &c.worker_args},
      {.table = "workers", .name = "env", .list = &c.worker_env},
      {.table = "workers", .name = "count", .number = &c.worker_count},
      {.table = "workers", .name = "timeout", .duration = &c.worker_timeout},
      {.table = "workers",
       .name = "cpu_limit",
       .duration = &c.worker_cpu_limit},
      {.table = "workers",
       .name = "memory_bytes",
       .number = &c.worker_memory_bytes},
      {.table = "jobs", .name = "queue_limit", .number = &c.queue_limit},
      {.table = "jobs", .name = "poison_time", .duration = &c.poison_time},
      {.table = "jobs", .name = "drain_timeout", .duration = &c.drain_timeout},
      {.table = "log", .name = "format", .text = &c.log_format},
      {.table = "log", .name = "level", .text = &c.log_level},
  };
}

absl::Status SetList(const toml::node& node, absl::string_view where,
                     std::vector<std::string>& list) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return Refuse(where, "a list of strings is due");
  std::vector<std::string> found;
  for (const toml::node& item : *array) {
    const auto text = item.value_exact<std::string>();
    if (!text.has_value()) return Refuse(where, "a list of strings is due");
    found.push_back(*text);
  }
  list = std::move(found);
  return absl::OkStatus();
}

absl::Status SetWord(const Word& word, const toml::node& node,
                     absl::string_view where) {
  const std::string subject = absl::StrCat(where, ":", node.source().begin.line,
                                           ": [", word.table, "] ", word.name);
  if (word.list != nullptr) return SetList(node, subject, *word.list);
  if (word.number != nullptr) {
    const auto number = node.value_exact<int64_t>();
    if (!number.has_value()) return Refuse(subject, "a whole number is due");
    *word.number = *number;
    return absl::OkStatus();
  }
  const auto text = node.value_exact<std::string>();
  if (!text.has_value()) return Refuse(subject, "a string is due");
  if (word.text != nullptr) {
    *word.text = *text;
    return absl::OkStatus();
  }
  if (!absl::ParseDuration(*text, word.duration)) {
    return Refuse(subject, absl::StrCat("found \"", *text,
                                        "\", a duration as \"90s\" is due"));
  }
  return absl::OkStatus();
}

absl::Status SetTable(const std::vector<Word>& words, absl::string_view table,
                      const toml::node& node, absl::string_view where) {
  const toml::table* entries = node.as_table();
  if (entries == nullptr) {
    return Refuse(where, absl::StrCat("\"", table, "\" is no table"));
  }
  for (const auto& [key, value] : *entries) {
    const std::string name(key.str());
    const Word* match = nullptr;
    for (const Word& word : words) {
      if (word.table == table && word.name == name) match = &word;
    }
    if (match == nullptr) {
      return Refuse(where,
                    absl::StrCat("[", table, "] ", name, ": no such word"));
    }
    RETURN_IF_ERROR(SetWord(*match, value, where));
  }
  return absl::OkStatus();
}

std::string Quoted(absl::string_view text) {
  std::ostringstream out;
  out << toml::value<std::string>(std::string(text));
  return out.str();
}

}  // namespace

absl::Status ReadConfigText(absl::string_view toml, absl::string_view where,
                            Config& config) {
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
    return Refuse(path, "found no regular file, one is due");
  }
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMaxConfigBytes) {
    return Refuse(path, absl::StrCat("found ", bytes, " bytes, at most ",
                                     kMaxConfigBytes, " are due"));
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return Refuse(path, "can't be read");
  return ReadConfigText(text.str(), path, config);
}

absl::Status CheckConfig(const Config& c) {
  const auto range = [](absl::string_view name, int64_t value, int64_t low,
                        int64_t high) {
    if (value >= low && value <= high) return absl::OkStatus();
    return Refuse(name, absl::StrCat("found ", value, ", ", low, " to ", high,
                                     " is due"));
  };
  constexpr int64_t kMaxBytes = int64_t{1} << 50;
  RETURN_IF_ERROR(range("[listen] max_message_bytes", c.max_message_bytes,
                        int64_t{64} << 10, int64_t{1} << 30));
  RETURN_IF_ERROR(
      range("[listen] max_waiting_calls", c.max_waiting_calls, 1, 16384));
  RETURN_IF_ERROR(range("[storage] cache_budget_bytes", c.cache_budget_bytes,
                        int64_t{1} << 20, kMaxBytes));
  RETURN_IF_ERROR(
      range("[storage] memory_tier_bytes", c.memory_tier_bytes, 0, kMaxBytes));
  RETURN_IF_ERROR(
      range("[storage] min_free_bytes", c.min_free_bytes, 0, kMaxBytes));
  RETURN_IF_ERROR(range("[workers] count", c.worker_count, 0, 1024));
  if (c.worker_memory_bytes != 0) {
    RETURN_IF_ERROR(range("[workers] memory_bytes", c.worker_memory_bytes,
                          int64_t{64} << 20, kMaxBytes));
  }
  RETURN_IF_ERROR(range("[jobs] queue_limit", c.queue_limit, 1, 1 << 20));
  if (c.worker_timeout <= absl::ZeroDuration() ||
      c.worker_cpu_limit < absl::Seconds(1)) {
    return Refuse("[workers] timeout, cpu_limit", "more than nothing is due");
  }
  if (c.idle_exit < absl::ZeroDuration()) {
    return Refuse("[listen] idle_exit", "0 or more is due");
  }
  if (c.data_folder.empty()) {
    return Refuse("[storage] data_folder", "a folder is due");
  }
  if (c.socket.empty() && c.tcp.empty()) {
    return Refuse("[listen]", "neither socket nor tcp is set");
  }
  if (!c.tcp.empty()) {
    RETURN_IF_ERROR(
        Annotate(CheckTcpAddress(c.tcp, /*least_port=*/1), "[listen]"));
  }
  // sockaddr_un holds 108 bytes with the closing zero.
  if (c.socket.size() > 107) {
    return Refuse(
        absl::StrCat("[listen] socket: ", c.socket),
        absl::StrCat("found ", c.socket.size(), " bytes, at most 107 are due"));
  }
  if (c.log_format != "text" && c.log_format != "json") {
    return Refuse("[log] format", absl::StrCat("found \"", c.log_format,
                                               "\", text or json is due"));
  }
  if (c.log_level != "info" && c.log_level != "warning" &&
      c.log_level != "error") {
    return Refuse("[log] level",
                  absl::StrCat("found \"", c.log_level,
                               "\", info, warning or error is due"));
  }
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
    absl::StrAppend(&text, word.name, " = ");
    if (word.text != nullptr) absl::StrAppend(&text, Quoted(*word.text));
    if (word.number != nullptr) absl::StrAppend(&text, *word.number);
    if (word.duration != nullptr) {
      absl::StrAppend(&text, Quoted(absl::FormatDuration(*word.duration)));
    }
    if (word.list != nullptr) {
      absl::StrAppend(&text, "[",
                      absl::StrJoin(*word.list, ", ",
                                    [](std::string* out, const std::string& s) {
                                      out->append(Quoted(s));
                                    }),
                      "]");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace kiln

#include "proto/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Hands each line to a function, one at a time.
class FunctionSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FunctionSink(std::function<void(absl::string_view)> take)
      : take_(std::move(take)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    take_({message.payload.data(), message.payload.size()});
  }
  void flush_() override {}

  const std::function<void(absl::string_view)> take_;
};

// The one place of the process that knows where logs go.
struct LogState {
  Mutex mu;
  LogLevel level ABSL_GUARDED_BY(mu) = LogLevel::kInfo;
  LogFormat format ABSL_GUARDED_BY(mu) = LogFormat::kText;
  std::shared_ptr<spdlog::logger> logger ABSL_GUARDED_BY(mu);
};

std::shared_ptr<spdlog::logger> LoggerOn(spdlog::sink_ptr sink) {
  auto logger = std::make_shared<spdlog::logger>("kiln", std::move(sink));
  logger->set_pattern("%v");
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::trace);
  return logger;
}

LogState& State() {
  static LogState* const state = [] {
    auto* made = new LogState;  // never destroyed: threads log until the end
    MutexLock lock(&made->mu);
    made->logger = LoggerOn(std::make_shared<spdlog::sinks::stderr_sink_mt>());
    return made;
  }();
  return *state;
}

// What LogScope has put on this thread's lines.
std::vector<LogField>& ScopeFields() {
  thread_local std::vector<LogField> fields;
  return fields;
}

// How many bytes the character of UTF-8 at the front of `text` takes (RFC 3629); 0:
// there is none.
size_t Utf8Size(absl::string_view text) {
  const auto at = [&text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = at(0);
  const size_t size = first < 0x80   ? 1
                      : first < 0xc2 ? 0
                      : first < 0xe0 ? 2
                      : first < 0xf0 ? 3
                      : first < 0xf5 ? 4
                                     : 0;
  if (text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  // Too long a form, half of a pair of UTF-16, or beyond the last character.
  if ((first == 0xe0 && at(1) < 0xa0) || (first == 0xed && at(1) > 0x9f) ||
      (first == 0xf0 && at(1) < 0x90) || (first == 0xf4 && at(1) > 0x8f)) {
    return 0;
  }
  return size;
}

void AppendEscaped(absl::string_view value, std::string& out) {
  constexpr absl::string_view kReplacement = "\xef\xbf\xbd";
  out += '"';
  while (!value.empty()) {
    const size_t size = Utf8Size(value);
    const auto c = static_cast<uint8_t>(value[0]);
    if (size == 0) {
      absl::StrAppend(&out, kReplacement);
    } else if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", value.substr(0, 1));
    } else if (c == '\n') {
      out += "\\n";
    } else if (c < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", c);
    } else if (c == 0xc2 && static_cast<uint8_t>(value[1]) < 0xa0) {
      // A control character of Latin-1.
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<uint8_t>(value[1]));
    } else {
      absl::StrAppend(&out, value.substr(0, size));
    }
    value.remove_prefix(std::max<size_t>(size, 1));
  }
  out += '"';
}

bool NeedsQuotes(absl::string_view value) {
  if (value.empty()) return true;
  for (const unsigned char c : value) {
    // What is beyond ASCII may be no UTF-8.
    if (c <= 0x20 || c >= 0x7f || c == '"' || c == '=' || c == '\\')
      return true;
  }
  return false;
}

void AppendText(const LogField& field, std::string& out) {
  absl::StrAppend(&out, " ", field.key(), "=");
  if (NeedsQuotes(field.value())) {
    AppendEscaped(field.value(), out);
  } else {
    out += field.value();
  }
}

void AppendJson(const LogField& field, std::string& out) {
  out += ',';
  AppendEscaped(field.key(), out);
  out += ':';
  if (field.quoted_in_json()) {
    AppendEscaped(field.value(), out);
  } else {
    out += field.value();
  }
}

struct LevelRow {
  char letter;
  absl::string_view name;
  spdlog::level::level_enum spdlog_level;
};
constexpr LevelRow kLevels[] = {
    {'I', "info", spdlog::level::info},
    {'W', "warning", spdlog::level::warn},
    {'E', "error", spdlog::level::err},
};

bool NamedAgain(const std::vector<const LogField*>& fields, size_t at) {
  for (size_t i = at + 1; i < fields.size(); ++i) {
    if (fields[i]->key() == fields[at]->key()) return true;
  }
  return false;
}

std::string Line(const LevelRow& level, LogFormat format,
                 absl::string_view event, LogFields fields) {
  const bool json = format == LogFormat::kJson;
  const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                            absl::UTCTimeZone());
  std::string line;
  if (json) {
    line = absl::StrCat("{\"time\":\"", time, "\",\"level\":\"", level.name,
                        "\",\"event\":");
    AppendEscaped(event, line);
  } else {
    line = absl::StrFormat("%c %s %s", level.letter, time, event);
  }
  std::vector<const LogField*> all;
  for (const LogField& field : ScopeFields()) all.push_back(&field);
  for (const LogField& field : fields) all.push_back(&field);
  for (size_t i = 0; i < all.size(); ++i) {
    // One of a name: the innermost, which is the last.
    if (NamedAgain(all, i)) continue;
    json ? AppendJson(*all[i], line) : AppendText(*all[i], line);
  }
  if (json) line += '}';
  return line;
}

void Log(LogLevel level, absl::string_view event, LogFields fields) {
  LogState& state = State();
  std::shared_ptr<spdlog::logger> logger;
  LogFormat format;
  {
    MutexLock lock(&state.mu);
    if (level < state.level) return;
    format = state.format;
    logger = state.logger;
  }
  const LevelRow& row = kLevels[static_cast<int>(level)];
  logger->log(row.spdlog_level, Line(row, format, event, fields));
}

}  // namespace

absl::Status ConfigureLog(const LogOptions& options) {
  spdlog::sink_ptr sink;
  if (options.sink) {
    sink = std::make_shared<FunctionSink>(options.sink);
  } else if (!options.file.empty()) {
    // spdlog's edge: opening a file is the one thing that throws.
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
    } catch (const spdlog::spdlog_ex& thrown) {
      return MakeError(ErrorReason::kStorage,
                       absl::StrCat("log file: ", thrown.what()));
    }
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  std::shared_ptr<spdlog::logger> logger = LoggerOn(std::move(sink));
  LogState& state = State();
  MutexLock lock(&state.mu);
  state.level = options.level;
  state.format = options.format;
  state.logger.swap(logger);
  return absl::OkStatus();
}

LogField::LogField(absl::string_view key, int value)
    : key_(key), value_(absl::StrCat(value)), quoted_in_json_(false) {}
LogField::LogField(absl::string_view key, int64_t value)
    : key_(key), value_(absl::StrCat(value)), quoted_in_json_(false) {}
LogField::LogField(absl::string_view key, uint32_t value)
    : key_(key), value_(absl::StrCat(value)), quoted_in_json_(false) {}
LogField::LogField(absl::string_view key, uint64_t value)
    : key_(key), value_(absl::StrCat(value)), quoted_in_json_(false) {}
// JSON has no nan and no inf: they stand as words.
LogField::LogField(absl::string_view key, double value)
    : key_(key),
      value_(absl::StrCat(value)),
      quoted_in_json_(!(value - value == 0)) {}
LogField::LogField(absl::string_view key, bool value)
    : key_(key), value_(value ? "true" : "false"), quoted_in_json_(false) {}

void LogInfo(absl::string_view event, LogFields fields) {
  Log(LogLevel::kInfo, event, fields);
}
void LogWarning(absl::string_view event, LogFields fields) {
  Log(LogLevel::kWarning, event, fields);
}
void LogError(absl::string_view event, LogFields fields) {
  Log(LogLevel::kError, event, fields);
}

LogScope::LogScope(LogFields fields) : fields_before_(ScopeFields().size()) {
  std::vector<LogField>& all = ScopeFields();
  all.insert(all.end(), fields.begin(), fields.end());
}

LogScope::~LogScope() {
  std::vector<LogField>& all = ScopeFields();
  all.erase(all.begin() + fields_before_, all.end());
}

}  // namespace kiln

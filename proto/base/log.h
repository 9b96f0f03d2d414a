#ifndef KILN_PROTO_BASE_LOG_H_
#define KILN_PROTO_BASE_LOG_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Logs of events: a dotted name in the past tense, then key=value.
//
//   LogInfo("cache.lookup", {{"outcome", "hit"}, {"us", 31}});
//
//   I 2026-01-31T09:12:44.031Z cache.lookup key=9c41d2 outcome=hit us=31
//
// or the same as one JSON object a line. A value with a space, a quote, a control
// character or a byte that is not ASCII is quoted and escaped, and what is not UTF-8
// replaced, so that no value can forge a line.
// All functions here are thread-safe.

enum class LogLevel { kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  // Appended to; empty: standard error.
  std::string file;
  // Takes the lines instead, for tests that read them.
  std::function<void(absl::string_view line)> sink;
};

// Where logs go from now on; without a call, INFO as text to standard error.
// UNAVAILABLE STORAGE when the file can't be opened: logs go on as before.
absl::Status ConfigureLog(const LogOptions& options);

// One key and its value. Made in place, at the call.
class LogField {
 public:
  LogField(absl::string_view key, absl::string_view value)
      : key_(key), value_(value), quoted_in_json_(true) {}
  LogField(absl::string_view key, const char* value)
      : LogField(key, absl::string_view(value)) {}
  LogField(absl::string_view key, const std::string& value)
      : LogField(key, absl::string_view(value)) {}
  LogField(absl::string_view key, int value);
  LogField(absl::string_view key, int64_t value);
  LogField(absl::string_view key, uint32_t value);
  LogField(absl::string_view key, uint64_t value);
  LogField(absl::string_view key, double value);
  LogField(absl::string_view key, bool value);

  const std::string& key() const { return key_; }
  const std::string& value() const { return value_; }
  bool quoted_in_json() const { return quoted_in_json_; }

 private:
  std::string key_;
  std::string value_;
  bool quoted_in_json_;
};

using LogFields = std::initializer_list<LogField>;

void LogInfo(absl::string_view event, LogFields fields = {});
void LogWarning(absl::string_view event, LogFields fields = {});
void LogError(absl::string_view event, LogFields fields = {});

// Puts its fields on every line that this thread logs until it is destroyed.
// Scopes nest; made and destroyed on one thread.
class LogScope {
 public:
  explicit LogScope(LogFields fields);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  size_t fields_before_;
};

}  // namespace kiln

#endif  // KILN_PROTO_BASE_LOG_H_

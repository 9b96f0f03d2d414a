#include "runtime/trace.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace kiln {
namespace {

// As JSON wants it. Names are ASCII words of ours, or come from an artifact:
// whatever is not printable ASCII is written as an escape.
std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", std::string(1, c));
    } else if (c < 0x20 || c > 0x7e) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

std::string ArgumentsOf(const TraceEvent& event) {
  if (event.nodes.empty()) return "";
  return absl::StrCat(
      ",\"args\":{\"nodes\":[",
      absl::StrJoin(event.nodes, ",",
                    [](std::string* out, const std::string& node) {
                      out->append(Quoted(node));
                    }),
      "]}");
}

}  // namespace

int64_t Trace::Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Trace::Add(absl::string_view name, absl::string_view category,
                int64_t start_ns, std::vector<std::string> nodes) {
  TraceEvent event;
  event.duration_ns = Now() - start_ns;
  event.start_ns = start_ns;
  event.name = std::string(name);
  event.category = std::string(category);
  event.thread = syscall(SYS_gettid);
  event.nodes = std::move(nodes);
  MutexLock lock(&mu_);
  events_.push_back(std::move(event));
}

std::vector<TraceEvent> Trace::events() const {
  MutexLock lock(&mu_);
  return events_;
}

std::string Trace::ToJson() const {
  const std::vector<TraceEvent> all = events();
  int64_t first = all.empty() ? 0 : all[0].start_ns;
  for (const TraceEvent& event : all) first = std::min(first, event.start_ns);
  std::string json = "{\"traceEvents\":[";
  absl::string_view separator = "\n";
  for (const TraceEvent& event : all) {
    absl::StrAppendFormat(
        &json,
        "%s{\"name\":%s,\"cat\":%s,\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,"
        "\"pid\":%d,\"tid\":%d%s}",
        separator, Quoted(event.name), Quoted(event.category),
        (event.start_ns - first) / 1e3, event.duration_ns / 1e3, getpid(),
        event.thread, ArgumentsOf(event));
    separator = ",\n";
  }
  absl::StrAppend(&json, "\n],\"displayTimeUnit\":\"ms\"}\n");
  return json;
}

}  // namespace kiln

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

std::string ListOf(absl::string_view name,
                   const std::vector<std::string>& words) {
  if (words.empty()) return "";
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(Quoted(word));
  return absl::StrCat("\"", name, "\":[", absl::StrJoin(quoted, ","), "]");
}

std::string ArgumentsOf(const TraceEvent& event) {
  const std::string lists = event.kernels.empty()
                                ? ListOf("nodes", event.nodes)
                                : ListOf("kernels", event.kernels);
  return lists.empty() ? "" : absl::StrCat(",\"args\":{", lists, "}");
}

}  // namespace

int64_t Trace::Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Trace::Add(absl::string_view name, absl::string_view category,
                int64_t start_ns, std::vector<std::string> nodes) {
  Add({.name = std::string(name),
       .category = std::string(category),
       .nodes = std::move(nodes)},
      start_ns);
}

void Trace::AddReplay(int64_t start_ns, std::vector<std::string> kernels) {
  Add({.name = "kiln_graph_replay",
       .category = "graph",
       .kernels = std::move(kernels)},
      start_ns);
}

void Trace::Add(TraceEvent event, int64_t start_ns) {
  event.duration_ns = Now() - start_ns;
  event.start_ns = start_ns;
  event.thread = syscall(SYS_gettid);
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

// What the daemon is doing: stats, jobs, workers, tune, version, drain.

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/compilectl/admin_call.h"
#include "client/compilectl/commands.h"
#include "client/daemon_identity.h"
#include "client/version.h"
#include "nlohmann/json.hpp"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/compile_service.pb.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;
using Admin = wire::AdminService::Stub;

}  // namespace

absl::StatusOr<std::string> StatsCommand(const AdminClient& daemon,
                                         OutputFormat format) {
  ASSIGN_OR_RETURN(
      const wire::StatsReply reply,
      AdminCall<wire::StatsReply>(daemon, &Admin::Stats, wire::StatsRequest()));
  if (format == OutputFormat::kJson) {
    Json counters = Json::object();
    for (const wire::Counter& counter : reply.counters()) {
      counters[counter.name()] = counter.value();
    }
    return JsonText({{"version", reply.version()},
                     {"uptime_ms", reply.uptime_ms()},
                     {"data_folder", reply.data_folder()},
                     {"counters", std::move(counters)}});
  }
  Table table({"COUNTER", "VALUE"});
  for (const wire::Counter& counter : reply.counters()) {
    table.Add({counter.name(), absl::StrCat(counter.value())});
  }
  return absl::StrCat("kilnd ", reply.version(), ", up ",
                      AgeText(absl::Milliseconds(reply.uptime_ms())),
                      ", data in ", reply.data_folder(), "\n",
                      table.Text("no counters"));
}

absl::StatusOr<std::string> JobsCommand(const AdminClient& daemon,
                                        OutputFormat format) {
  wire::JobsReply reply;
  RETURN_IF_ERROR(
      EachPage<wire::JobsReply>(daemon, &Admin::Jobs, wire::JobsRequest(),
                                [&reply](const wire::JobsReply& page) {
                                  reply.mutable_jobs()->MergeFrom(page.jobs());
                                  return true;
                                }));
  if (format == OutputFormat::kJson) {
    Json jobs = Json::array();
    for (const wire::Job& job : reply.jobs()) {
      jobs.push_back({{"id", job.id()},
                      {"key", LongKey(job.compile_key())},
                      {"state", job.state()},
                      {"stage", job.stage()},
                      {"age_ms", job.age_ms()},
                      {"waiters", job.waiters()},
                      {"graph", job.graph_name()}});
    }
    return JsonText({{"jobs", std::move(jobs)}});
  }
  Table table({"JOB", "KEY", "STATE", "STAGE", "AGE", "WAITERS", "GRAPH"});
  for (const wire::Job& job : reply.jobs()) {
    table.Add({job.id(), ShortKey(job.compile_key()), job.state(), job.stage(),
               AgeText(absl::Milliseconds(job.age_ms())),
               absl::StrCat(job.waiters()), job.graph_name()});
  }
  return table.Text("no jobs");
}

absl::StatusOr<std::string> WorkersCommand(const AdminClient& daemon,
                                           OutputFormat format) {
  ASSIGN_OR_RETURN(const wire::WorkersReply reply,
                   AdminCall<wire::WorkersReply>(daemon, &Admin::Workers,
                                                 wire::WorkersRequest()));
  if (format == OutputFormat::kJson) {
    Json workers = Json::array();
    for (const wire::Worker& worker : reply.workers()) {
      workers.push_back({{"index", worker.index()},
                         {"pid", worker.pid()},
                         {"state", worker.state()},
                         {"key", LongKey(worker.compile_key())},
                         {"jobs_done", worker.jobs_done()},
                         {"restarts", worker.restarts()},
                         {"resident_bytes", worker.resident_bytes()},
                         {"sandbox", worker.sandbox()},
                         {"sandbox_lacks", worker.sandbox_lacks()}});
    }
    Json toolchains = Json::array();
    for (const wire::Toolchain& tool : reply.toolchains()) {
      toolchains.push_back({{"name", tool.name()},
                            {"version", tool.version()},
                            {"path", tool.path()},
                            {"missing", tool.missing()}});
    }
    return JsonText({{"workers", std::move(workers)},
                     {"toolchains", std::move(toolchains)}});
  }
  Table table({"WORKER", "PID", "STATE", "KEY", "JOBS", "RESTARTS", "MEMORY",
               "SANDBOX"});
  for (const wire::Worker& worker : reply.workers()) {
    table.Add({absl::StrCat(worker.index()), absl::StrCat(worker.pid()),
               worker.state(), ShortKey(worker.compile_key()),
               absl::StrCat(worker.jobs_done()),
               absl::StrCat(worker.restarts()),
               BytesText(worker.resident_bytes()), worker.sandbox()});
  }
  std::string text = table.Text("no workers");
  for (const wire::Toolchain& tool : reply.toolchains()) {
    absl::StrAppend(&text, "toolchain ", tool.name(), " ",
                    tool.missing().empty()
                        ? absl::StrCat(tool.version(), " at ", tool.path())
                        : absl::StrCat("missing: ", tool.missing()),
                    "\n");
  }
  return text;
}

absl::StatusOr<std::string> QuarantineCommand(const AdminClient& daemon,
                                              const std::string& clear_prefix,
                                              bool clear_all,
                                              OutputFormat format) {
  wire::QuarantineRequest request;
  request.set_clear_prefix_hex(clear_prefix);
  request.set_clear_all(clear_all);
  ASSIGN_OR_RETURN(const wire::QuarantineReply reply,
                   AdminCall<wire::QuarantineReply>(
                       daemon, &Admin::ListQuarantine, request));
  if (!clear_all && !clear_prefix.empty() && reply.cleared() == 0) {
    return absl::NotFoundError(
        absl::StrCat("quarantine: no job's key begins with ", clear_prefix,
                     "; `compilectl quarantine` lists those there are"));
  }
  if (format == OutputFormat::kJson) {
    Json jobs = Json::array();
    for (const wire::QuarantinedJob& job : reply.jobs()) {
      jobs.push_back({{"key", LongKey(job.compile_key())},
                      {"graph", job.graph_name()},
                      {"caller", job.caller()},
                      {"left_ms", job.left_ms()},
                      {"why", job.why()}});
    }
    return JsonText({{"cleared", reply.cleared()}, {"jobs", std::move(jobs)}});
  }
  Table table({"KEY", "LEFT", "CALLER", "GRAPH", "WHY"});
  for (const wire::QuarantinedJob& job : reply.jobs()) {
    table.Add({ShortKey(job.compile_key()),
               AgeText(absl::Milliseconds(job.left_ms())), job.caller(),
               job.graph_name(), job.why()});
  }
  const std::string cleared =
      clear_all || !clear_prefix.empty()
          ? absl::StrCat("cleared ", reply.cleared(), "\n")
          : "";
  return absl::StrCat(cleared, table.Text("nothing in quarantine"));
}

namespace {

Json TunedJson(const wire::TunedKernel& kernel) {
  const int count = std::min(kernel.choices_size(), kernel.seconds_size());
  Json choices = Json::array();
  for (int i = 0; i < count; ++i) {
    choices.push_back(
        {{"choice", kernel.choices(i)}, {"seconds", kernel.seconds(i)}});
  }
  return {{"key", kernel.key()},
          {"choice", kernel.choice()},
          {"choices", std::move(choices)}};
}

std::string TunedText(const wire::TunedKernel& kernel) {
  const int count = std::min(kernel.choices_size(), kernel.seconds_size());
  Table table({"CHOICE", "MICROSECONDS", ""});
  for (int i = 0; i < count; ++i) {
    table.Add({kernel.choices(i),
               absl::StrFormat("%.2f", kernel.seconds(i) * 1e6),
               kernel.choices(i) == kernel.choice() ? "winner" : ""});
  }
  return absl::StrCat(kernel.key(), "\n", table.Text("no choices"));
}

}  // namespace

absl::StatusOr<std::string> TuneCommand(const AdminClient& daemon,
                                        const CaseOptions& options,
                                        OutputFormat format) {
  wire::TuneRequest request;
  absl::StatusOr<wire::CompileRequest> compile = RequestOf(options);
  if (!compile.ok()) return Annotate(compile.status(), "tune");
  *request.mutable_compile() = *std::move(compile);
  const absl::StatusOr<wire::TuneReply> answer =
      AdminCall<wire::TuneReply>(daemon, &Admin::Tune, request);
  if (absl::IsDeadlineExceeded(answer.status())) {
    return absl::DeadlineExceededError(absl::StrCat(
        "tune: not measured within ", absl::FormatDuration(daemon.timeout()),
        "; the daemon goes on and keeps the winners; --timeout waits longer"));
  }
  if (!answer.ok()) return answer.status();
  if (format == OutputFormat::kJson) {
    Json kernels = Json::array();
    for (const wire::TunedKernel& kernel : answer->kernels()) {
      kernels.push_back(TunedJson(kernel));
    }
    return JsonText({{"kernels", std::move(kernels)}});
  }
  if (answer->kernels().empty()) {
    return std::string("no kernel of the graph has a choice\n");
  }
  std::string text;
  for (const wire::TunedKernel& kernel : answer->kernels()) {
    absl::StrAppend(&text, TunedText(kernel));
  }
  return text;
}

absl::StatusOr<std::string> VersionCommand(
    const absl::StatusOr<AdminClient>& daemon, OutputFormat format) {
  wire::DescribeReply said;
  std::string absent = std::string(daemon.status().message());
  if (daemon.ok()) {
    absl::StatusOr<wire::DescribeReply> reply =
        AskWhoItIs(daemon->channel(), daemon->timeout(), "kilnd");
    absent = std::string(reply.status().message());
    if (reply.ok()) said = *std::move(reply);
  }
  const std::string key = absl::BytesToHexString(said.public_key());
  const auto parsed = PublicKey::FromBytes(said.public_key());
  const std::string id =
      parsed.ok() ? absl::BytesToHexString(parsed->key_id()) : "";
  if (format == OutputFormat::kJson) {
    return JsonText({{"compilectl", kVersion},
                     {"kilnd", said.version()},
                     {"public_key", key},
                     {"key_id", id}});
  }
  return absl::StrCat("compilectl ", kVersion, "\nkilnd      ",
                      said.version().empty()
                          ? absl::StrCat("unknown: ", absent)
                          : absl::StrCat(said.version(), "\npublic key ", key,
                                         "\nkey id     ", id),
                      "\n");
}

absl::StatusOr<std::string> DrainCommand(const AdminClient& daemon,
                                         OutputFormat format) {
  RETURN_IF_ERROR(
      AdminCall<wire::DrainReply>(daemon, &Admin::Drain, wire::DrainRequest())
          .status());
  if (format == OutputFormat::kJson) return JsonText({{"draining", true}});
  return std::string("kilnd drains: it finishes what runs and ends\n");
}

}  // namespace kiln

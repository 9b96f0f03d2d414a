// What the cache holds: ls, show, explain, purge.

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/compilectl/admin_call.h"
#include "client/compilectl/commands.h"
#include "client/compilectl/show_text.h"
#include "client/compilectl/show_trace.h"
#include "nlohmann/json.hpp"
#include "proto/base/status.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;
using Admin = wire::AdminService::Stub;

// Of what a purge would take, beside their number.
constexpr int kMostVictimsShown = 100;

std::string SinceText(int64_t unix_ms) {
  if (unix_ms == 0) return "-";
  return AgeText(absl::Now() - absl::FromUnixMillis(unix_ms));
}

Json PartsJson(const google::protobuf::RepeatedPtrField<wire::KeyPart>& parts) {
  Json out = Json::array();
  for (const wire::KeyPart& part : parts) {
    out.push_back({{"name", part.name()},
                   {"digest", LongKey(part.digest())},
                   {"text", part.text()}});
  }
  return out;
}

Json EntryJson(const wire::Entry& entry) {
  Json guards = Json::array();
  for (const std::string& guard : entry.guards()) guards.push_back(guard);
  return {{"key", LongKey(entry.compile_key())},
          {"entry", LongKey(entry.entry_id())},
          {"namespace", entry.cache_namespace()},
          {"graph", entry.graph_name()},
          {"target", entry.target()},
          {"bytes", entry.bytes()},
          {"created_unix_ms", entry.created_unix_ms()},
          {"last_used_unix_ms", entry.last_used_unix_ms()},
          {"kernels", entry.kernels()},
          {"pinned", entry.pinned()},
          {"parts", PartsJson(entry.parts())},
          {"guards", std::move(guards)}};
}

std::string EntriesText(
    const google::protobuf::RepeatedPtrField<wire::Entry>& entries,
    absl::string_view when_empty) {
  Table table({"KEY", "NAMESPACE", "TARGET", "GRAPH", "KERNELS", "SIZE", "AGE",
               "USED"});
  for (const wire::Entry& entry : entries) {
    table.Add({ShortKey(entry.compile_key()), entry.cache_namespace(),
               entry.target(), entry.graph_name(),
               absl::StrCat(entry.kernels()), BytesText(entry.bytes()),
               SinceText(entry.created_unix_ms()),
               SinceText(entry.last_used_unix_ms())});
  }
  return table.Text(when_empty);
}

Json EntriesJson(
    const google::protobuf::RepeatedPtrField<wire::Entry>& entries) {
  Json out = Json::array();
  for (const wire::Entry& entry : entries) out.push_back(EntryJson(entry));
  return out;
}

absl::Status CheckKey(absl::string_view command, const std::string& key) {
  if (!key.empty()) return absl::OkStatus();
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat(command,
                                ": the key is empty; give its first digits, "
                                "which compilectl ls lists"));
}

// A key's digits, or else a corpus file that is there.
absl::Status CheckSubject(const std::string& subject) {
  RETURN_IF_ERROR(CheckKey("explain", subject));
  if (subject.find_first_not_of("0123456789abcdefABCDEF") ==
      std::string::npos) {
    return absl::OkStatus();
  }
  const size_t jsonl = subject.find(".jsonl");
  const std::string file =
      subject.substr(0, jsonl == std::string::npos ? jsonl : jsonl + 6);
  std::error_code error;
  if (!std::filesystem::exists(file, error) &&
      !std::filesystem::exists(file + ".zst", error)) {
    return absl::NotFoundError(absl::StrCat(
        file, ": no such file; expected a key's digits or FILE.jsonl[:CASE]"));
  }
  if (jsonl != std::string::npos) return absl::OkStatus();
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat(file,
                                ": not a .jsonl file; expected a key's digits "
                                "or FILE.jsonl[:CASE]"));
}

std::string ExplainText(const wire::ExplainReply& reply) {
  Table table({"PART", "", "ASKED", "NEAREST"});
  for (const wire::KeyPart& part : reply.asked()) {
    std::string nearest;
    std::string verdict = reply.has_nearest() ? "same" : "";
    for (const wire::KeyPart& other : reply.nearest().parts()) {
      if (other.name() != part.name()) continue;
      nearest = other.text();
      if (other.digest() != part.digest()) verdict = "DIFFERS";
    }
    table.Add({part.name(), verdict, part.text(),
               verdict == "DIFFERS" ? nearest : ""});
  }
  std::string text = table.Text("no parts");
  if (reply.found()) {
    absl::StrAppend(&text, "found: ", ShortKey(reply.nearest().compile_key()),
                    "\n");
  } else if (!reply.has_nearest()) {
    absl::StrAppend(&text, "not found, and nothing to compare it with\n");
  } else {
    absl::StrAppend(&text, "not found; nearest is ",
                    ShortKey(reply.nearest().compile_key()),
                    ", first difference: ", reply.first_difference(), "\n");
  }
  if (!reply.detail().empty()) absl::StrAppend(&text, reply.detail(), "\n");
  return text;
}

wire::PurgeRequest PurgeRequestOf(const PurgeOptions& options) {
  wire::PurgeRequest request;
  request.set_key_prefix_hex(options.key_prefix);
  request.set_older_than_ms(absl::ToInt64Milliseconds(options.older_than));
  request.set_device(options.device);
  request.set_cache_namespace(options.cache_namespace);
  request.set_all(options.all);
  return request;
}

// All pages of a purge as one.
absl::StatusOr<wire::PurgeReply> Purge(const AdminClient& daemon,
                                       const wire::PurgeRequest& request) {
  wire::PurgeReply all;
  RETURN_IF_ERROR(EachPage<wire::PurgeReply>(
      daemon, &Admin::Purge, request, [&all](const wire::PurgeReply& page) {
        all.set_entries(all.entries() + page.entries());
        all.set_bytes(all.bytes() + page.bytes());
        for (const wire::Entry& victim : page.victims()) {
          if (all.victims_size() < kMostVictimsShown)
            *all.add_victims() = victim;
        }
        return true;
      }));
  return all;
}

// Asks first when all or much would go. ABORTED when the answer is no.
absl::Status ConfirmPurge(
    const AdminClient& daemon, wire::PurgeRequest request,
    const std::function<bool(const std::string& question)>& confirm) {
  request.set_dry_run(true);
  ASSIGN_OR_RETURN(const wire::PurgeReply would, Purge(daemon, request));
  const bool small =
      would.entries() <= kBigPurgeEntries && would.bytes() <= kBigPurgeBytes;
  if (small && (!request.all() || would.entries() == 0)) {
    return absl::OkStatus();
  }
  if (confirm(absl::StrCat("purge ", would.entries(), " entries, ",
                           BytesText(would.bytes()), "?"))) {
    return absl::OkStatus();
  }
  return absl::AbortedError("purge: not confirmed; --yes goes without asking");
}

}  // namespace

absl::StatusOr<std::string> ListCommand(const AdminClient& daemon,
                                        const std::string& key_prefix,
                                        const std::string& cache_namespace,
                                        uint32_t limit, OutputFormat format) {
  wire::ListRequest request;
  request.set_key_prefix_hex(key_prefix);
  request.set_cache_namespace(cache_namespace);
  request.set_limit(limit);
  google::protobuf::RepeatedPtrField<wire::Entry> entries;
  const auto has_enough = [&entries, limit] {
    return limit > 0 && entries.size() >= static_cast<int>(limit);
  };
  RETURN_IF_ERROR(EachPage<wire::ListReply>(
      daemon, &Admin::List, request, [&](const wire::ListReply& page) {
        for (const wire::Entry& entry : page.entries()) {
          if (!has_enough()) *entries.Add() = entry;
        }
        return !has_enough();
      }));
  if (format == OutputFormat::kJson)
    return JsonText({{"entries", EntriesJson(entries)}});
  return EntriesText(entries, "no entries");
}

absl::StatusOr<std::string> ShowCommand(const AdminClient& daemon,
                                        const std::string& key_prefix,
                                        const std::string& cache_namespace,
                                        ShowWhat what, OutputFormat format) {
  RETURN_IF_ERROR(CheckKey("show", key_prefix));
  wire::ShowRequest request;
  request.set_key_prefix_hex(key_prefix);
  request.set_cache_namespace(cache_namespace);
  ASSIGN_OR_RETURN(const wire::ShowReply reply,
                   AdminCall<wire::ShowReply>(daemon, &Admin::Show, request));
  if (what == ShowWhat::kTrace) return ShowTrace(reply);
  if (format == OutputFormat::kTable) return ShowText(reply, what);
  Json document = EntryJson(reply.entry());
  const wire::CompilePlan& compiled = reply.artifact().compiled();
  Json counters = Json::object();
  for (const wire::Counter& counter : compiled.counters()) {
    counters[counter.name()] = counter.value();
  }
  document["counters"] = std::move(counters);
  Json kernels = Json::array();
  for (const wire::PlanKernel& kernel : compiled.plan().kernels()) {
    kernels.push_back({{"label", kernel.label()},
                       {"symbol", kernel.symbol()},
                       {"module", kernel.module()},
                       {"text", kernel.text()}});
  }
  document["kernels"] = std::move(kernels);
  Json sources = Json::array();
  for (const wire::TranslationUnit& unit : compiled.units()) {
    sources.push_back(unit.source());
  }
  document["sources"] = std::move(sources);
  return JsonText(document);
}

absl::StatusOr<std::string> ExplainCommand(const AdminClient& daemon,
                                           const CaseOptions& options,
                                           OutputFormat format) {
  RETURN_IF_ERROR(CheckSubject(options.subject));
  wire::ExplainRequest request;
  if (absl::StrContains(options.subject, ".jsonl")) {
    ASSIGN_OR_RETURN(*request.mutable_request(), RequestOf(options));
  } else {
    request.set_key_prefix_hex(options.subject);
    request.set_cache_namespace(options.cache_namespace);
  }
  ASSIGN_OR_RETURN(
      const wire::ExplainReply reply,
      AdminCall<wire::ExplainReply>(daemon, &Admin::Explain, request));
  if (format == OutputFormat::kTable) return ExplainText(reply);
  Json document = {{"found", reply.found()},
                   {"asked", PartsJson(reply.asked())},
                   {"first_difference", reply.first_difference()},
                   {"detail", reply.detail()}};
  document["nearest"] =
      reply.has_nearest() ? EntryJson(reply.nearest()) : Json(nullptr);
  return JsonText(document);
}

absl::StatusOr<std::string> PurgeCommand(
    const AdminClient& daemon, const PurgeOptions& options,
    const std::function<bool(const std::string& question)>& confirm,
    OutputFormat format) {
  wire::PurgeRequest request = PurgeRequestOf(options);
  if (options.key_prefix.empty() && options.device.empty() && !options.all &&
      options.older_than <= absl::ZeroDuration()) {
    return MakeError(ErrorReason::kBadOption,
                     "purge: give a key, --older-than, --device or --all");
  }
  if (!options.yes && !options.dry_run) {
    RETURN_IF_ERROR(ConfirmPurge(daemon, request, confirm));
  }
  request.set_dry_run(options.dry_run);
  ASSIGN_OR_RETURN(const wire::PurgeReply reply, Purge(daemon, request));
  if (format == OutputFormat::kJson) {
    return JsonText({{"dry_run", options.dry_run},
                     {"entries", reply.entries()},
                     {"bytes", reply.bytes()},
                     {"victims", EntriesJson(reply.victims())}});
  }
  std::string text;
  if (options.dry_run) {
    text = EntriesText(reply.victims(), "no entries");
    const uint64_t shown = static_cast<uint64_t>(reply.victims_size());
    if (reply.entries() > shown)
      absl::StrAppend(&text, "and ", reply.entries() - shown, " more\n");
  }
  return absl::StrCat(text, options.dry_run ? "would purge " : "purged ",
                      reply.entries(), " entries, ", BytesText(reply.bytes()),
                      "\n");
}

}  // namespace kiln

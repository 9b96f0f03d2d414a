// Work on the whole cache: scrub, verify, compact; and what stays in it: pin, unpin.

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/compilectl/admin_call.h"
#include "client/compilectl/commands.h"
#include "nlohmann/json.hpp"
#include "proto/base/status.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;
using Admin = wire::AdminService::Stub;

constexpr absl::Duration kAskEvery = absl::Milliseconds(500);

wire::MaintainRequest::Task WireTask(MaintainTask task) {
  switch (task) {
    case MaintainTask::kScrub:
      return wire::MaintainRequest::TASK_SCRUB;
    case MaintainTask::kVerify:
      return wire::MaintainRequest::TASK_VERIFY;
    case MaintainTask::kCompact:
      return wire::MaintainRequest::TASK_COMPACT;
  }
  return wire::MaintainRequest::TASK_UNSPECIFIED;
}

absl::string_view NameOf(MaintainTask task) {
  switch (task) {
    case MaintainTask::kScrub:
      return "scrub";
    case MaintainTask::kVerify:
      return "verify";
    case MaintainTask::kCompact:
      return "compact";
  }
  return "?";
}

std::string ProgressText(MaintainTask task, const wire::MaintainReply& reply) {
  const std::string age = AgeText(absl::Milliseconds(reply.elapsed_ms()));
  if (task == MaintainTask::kCompact) {
    return absl::StrCat("compact: ", age, ", ", BytesText(reply.disk_bytes()),
                        " on disk");
  }
  return absl::StrCat(NameOf(task), ": ", age, ", ", reply.records(),
                      " of about ", reply.expected(), " records, ",
                      BytesText(reply.bytes()), ", ", reply.damaged(),
                      " damaged");
}

std::string EndText(MaintainTask task, const wire::MaintainReply& reply) {
  const std::string age = AgeText(absl::Milliseconds(reply.elapsed_ms()));
  if (task == MaintainTask::kCompact) {
    return absl::StrCat(BytesText(reply.disk_bytes_before()),
                        " on disk before, ", BytesText(reply.disk_bytes()),
                        " now, in ", age, "\n");
  }
  const bool mends = task == MaintainTask::kScrub;
  Table table({"FOUND", "RECORDS", mends ? "DONE" : "A SCRUB WOULD"});
  const auto row = [&table](absl::string_view found, uint64_t records,
                            absl::string_view done) {
    table.Add({std::string(found), absl::StrCat(records), std::string(done)});
  };
  row("read", reply.records(), "-");
  row("damaged", reply.damaged(), mends ? "dropped" : "drop them");
  row("unnamed", reply.unnamed(),
      mends ? "named by their keys again" : "have their keys name them");
  row("names of nothing", reply.dangling(),
      mends ? "taken out" : "take them out");
  row("of other builds", reply.other_versions(), "left alone");
  row("unreadable", reply.unreadable(), "left alone");
  return absl::StrCat(table.Text(""), BytesText(reply.bytes()), " in ", age,
                      "\n");
}

Json ReplyJson(MaintainTask task, const wire::MaintainReply& reply) {
  return {{"task", NameOf(task)},
          {"elapsed_ms", reply.elapsed_ms()},
          {"records", reply.records()},
          {"bytes", reply.bytes()},
          {"damaged", reply.damaged()},
          {"unnamed", reply.unnamed()},
          {"dangling", reply.dangling()},
          {"other_versions", reply.other_versions()},
          {"unreadable", reply.unreadable()},
          {"disk_bytes_before", reply.disk_bytes_before()},
          {"disk_bytes", reply.disk_bytes()}};
}

}  // namespace

absl::StatusOr<MaintainOutcome> MaintainCommand(
    const AdminClient& daemon, MaintainTask task,
    const std::function<void(const std::string& line)>& tell,
    OutputFormat format) {
  wire::MaintainRequest request;
  request.set_task(WireTask(task));
  ASSIGN_OR_RETURN(
      wire::MaintainReply reply,
      AdminCall<wire::MaintainReply>(daemon, &Admin::Maintain, request));
  request.clear_task();
  while (reply.running()) {
    tell(ProgressText(task, reply));
    absl::SleepFor(kAskEvery);
    ASSIGN_OR_RETURN(reply, AdminCall<wire::MaintainReply>(
                                daemon, &Admin::Maintain, request));
  }
  if (reply.task() != WireTask(task)) {
    return absl::AbortedError(
        absl::StrCat(NameOf(task), ": another task was begun meanwhile"));
  }
  if (!reply.error().empty())
    return absl::AbortedError(absl::StrCat(NameOf(task), ": ", reply.error()));
  const bool sound = reply.damaged() + reply.unnamed() + reply.dangling() +
                         reply.unreadable() ==
                     0;
  return MaintainOutcome{
      .text = format == OutputFormat::kJson ? JsonText(ReplyJson(task, reply))
                                            : EndText(task, reply),
      .left_unsound = task == MaintainTask::kVerify && !sound};
}

absl::StatusOr<std::string> StopMaintainCommand(const AdminClient& daemon,
                                                MaintainTask task,
                                                OutputFormat format) {
  wire::MaintainRequest request;
  ASSIGN_OR_RETURN(
      const wire::MaintainReply before,
      AdminCall<wire::MaintainReply>(daemon, &Admin::Maintain, request));
  if (!before.running() || before.task() != WireTask(task)) {
    return absl::NotFoundError(absl::StrCat(NameOf(task), ": not under way"));
  }
  request.set_stop(true);
  RETURN_IF_ERROR(
      AdminCall<wire::MaintainReply>(daemon, &Admin::Maintain, request)
          .status());
  if (format == OutputFormat::kJson) return JsonText({{"stopping", true}});
  return absl::StrCat(NameOf(task), ": stopping\n");
}

absl::StatusOr<std::string> PinCommand(const AdminClient& daemon,
                                       const std::string& key_prefix,
                                       const std::string& cache_namespace,
                                       bool unpin, OutputFormat format) {
  wire::PinRequest request;
  request.set_key_prefix_hex(key_prefix);
  request.set_cache_namespace(cache_namespace);
  request.set_unpin(unpin);
  wire::PinReply reply;
  RETURN_IF_ERROR(EachPage<wire::PinReply>(
      daemon, &Admin::Pin, request, [&reply](const wire::PinReply& page) {
        reply.MergeFrom(page);
        return true;
      }));
  if (format == OutputFormat::kJson) {
    Json entries = Json::array();
    for (const wire::Entry& entry : reply.entries()) {
      entries.push_back({{"key", LongKey(entry.compile_key())},
                         {"entry", LongKey(entry.entry_id())},
                         {"pinned", entry.pinned()}});
    }
    return JsonText({{"entries", std::move(entries)}});
  }
  return absl::StrCat(unpin ? "unpinned " : "pinned ", reply.entries_size(),
                      reply.entries_size() == 1 ? " entry\n" : " entries\n");
}

}  // namespace kiln

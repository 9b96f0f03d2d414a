#include "client/local_worker.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/assemble.h"
#include "proto/base/digest.h"
#include "proto/base/frame.h"
#include "proto/base/seal.h"
#include "proto/base/status.h"
#include "proto/base/work_error.h"
#include "proto/key/request_digest.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// worker.proto: where a worker finds its socket.
constexpr int kWorkerSocket = 3;
constexpr size_t kStderrTailBytes = 2000;
// How long one whose socket closed may take to be seen as ended.
constexpr absl::Duration kExitGrace = absl::Milliseconds(500);

absl::Status CannotStart(absl::string_view why) {
  return MakeError(ErrorReason::kNoToolchain,
                   absl::StrCat("local worker ", why));
}

std::string LogPath(const std::string& folder) { return folder + "/stderr"; }

std::string StderrTail(const std::string& folder) {
  std::ifstream in(LogPath(folder), std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  const std::string all = text.str();
  return all.substr(all.size() - std::min(all.size(), kStderrTailBytes));
}

absl::StatusOr<Child> StartWorker(const LocalWorkerOptions& options,
                                  const std::string& folder, int worker_end) {
  ChildOptions child;
  child.program = options.program;
  child.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + folder, "LANG=C",
               "TMPDIR=" + folder};
  child.env.insert(child.env.end(), options.environment.begin(),
                   options.environment.end());
  child.folder = folder;
  child.output_file = LogPath(folder);
  child.descriptors = {{.ours = worker_end, .childs = kWorkerSocket}};
  return Child::Start(child);
}

// What a worker does for a request, in words.
std::string WorkOf(const wire::CompileRequest& request,
                   absl::string_view stage) {
  const std::string& name = request.graph().name();
  return name.empty() ? std::string(stage)
                      : absl::StrCat("graph ", name, ": ", stage);
}

}  // namespace

LocalWorker::LocalWorker(LocalWorkerOptions options)
    : options_(std::move(options)) {}

LocalWorker::~LocalWorker() {
  MutexLock lock(&mu_);
  Stop();
}

absl::StatusOr<CompileOutcome> LocalWorker::Compile(
    const wire::CompileRequest& request, const CompileCall& call) {
  ASSIGN_OR_RETURN(const TimedLock::Taken taken,
                   lock_.Take(call.deadline, "local worker"));
  MutexLock lock(&mu_);
  return CompileLocked(request, call.deadline);
}

absl::StatusOr<CompileOutcome> LocalWorker::CompileLocked(
    const wire::CompileRequest& request, absl::Time deadline) {
  // It has one caller, whose sizes decide.
  ASSIGN_OR_RETURN(CanonicalRequest canonical,
                   CanonicalizeRequest(request, DecideBy::kSizes));
  RETURN_IF_ERROR(EnsureStarted());
  CompileOutcome answer;
  answer.served_from = wire::CompileResult::SERVED_FROM_COMPILE;
  answer.request_digest = canonical.digest.total;
  const absl::Time start = absl::Now();

  wire::WorkRequest plan_request;
  *plan_request.mutable_plan()->mutable_compile() = canonical.request;
  ASSIGN_OR_RETURN(
      wire::WorkReply planned,
      Ask(std::move(plan_request), WorkOf(request, "planning"), deadline));
  if (!planned.has_plan()) {
    return absl::InternalError("local worker: due a plan");
  }
  const absl::Time planned_at = absl::Now();
  answer.planned = planned_at - start;

  std::vector<wire::ObjectCode> objects;
  for (const wire::TranslationUnit& unit : planned.plan().units()) {
    wire::WorkRequest build_request;
    *build_request.mutable_build()->mutable_unit() = unit;
    *build_request.mutable_build()->mutable_target() = request.target();
    ASSIGN_OR_RETURN(
        wire::WorkReply built,
        Ask(std::move(build_request), WorkOf(request, "building"), deadline));
    if (!built.has_build()) {
      return absl::InternalError("local worker: due an object");
    }
    objects.push_back(std::move(*built.mutable_build()));
  }
  answer.built = absl::Now() - planned_at;
  answer.units_built = static_cast<int>(objects.size());
  ASSIGN_OR_RETURN(
      std::string bytes,
      AssembleArtifact(std::move(*planned.mutable_plan()), std::move(objects),
                       request.target(), canonical.digest.total,
                       canonical.digest.total));
  answer.artifact = UnsignedArtifact(std::move(bytes));
  return answer;
}

absl::Status LocalWorker::EnsureStarted() {
  if (child_.has_value()) return absl::OkStatus();
  std::string folder = options_.scratch_root + "/kiln-worker-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return CannotStart(
        absl::StrCat(options_.program, ": ", std::strerror(errno)));
  }
  folder_ = folder;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return CannotStart(
        absl::StrCat(options_.program, ": ", std::strerror(errno)));
  }
  absl::StatusOr<Child> child = StartWorker(options_, folder_, ends[1]);
  close(ends[1]);
  socket_ = ends[0];
  if (!child.ok()) {
    Stop();
    return CannotStart(child.status().message());
  }
  child_.emplace(*std::move(child));
  return absl::OkStatus();
}

std::string LocalWorker::PostMortem() {
  const bool killed = !child_->EndsWithin(kExitGrace);
  const std::string how = HowItEnded(child_->End());
  const std::string tail = StderrTail(folder_);
  return absl::StrCat(killed ? "killed" : how,
                      tail.empty() ? "; stderr is empty" : "; stderr: ", tail);
}

void LocalWorker::Stop() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  child_.reset();
  std::error_code ignored;  // what is left lies in the caller's own temp folder
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
  folder_.clear();
}

absl::StatusOr<wire::WorkReply> LocalWorker::Ask(wire::WorkRequest request,
                                                 absl::string_view work,
                                                 absl::Time deadline) {
  request.set_id(next_id_++);
  const FrameOptions options = {.deadline = deadline};
  absl::Status sent = WriteFrame(socket_, request.SerializeAsString(), options);
  absl::StatusOr<std::string> frame =
      sent.ok() ? ReadFrame(socket_, options) : sent;
  wire::WorkReply reply;
  if (frame.ok() &&
      (!reply.ParseFromString(*frame) || reply.id() != request.id())) {
    frame = absl::DataLossError("local worker: a reply to something else");
  }
  if (frame.ok()) {
    if (reply.has_error()) return StatusOf(reply.error());
    return reply;
  }
  // The stream is out of step: the process goes, the next compile starts anew.
  const std::string subject = absl::StrCat("local worker: ", work);
  if (absl::IsDeadlineExceeded(frame.status())) {
    Stop();
    return Annotate(frame.status(), subject);
  }
  const std::string end = PostMortem();
  Stop();
  return MakeError(
      ErrorReason::kWorkerDied,
      absl::StrCat(subject, ": ", frame.status().message(), "; ", end));
}

}  // namespace kiln

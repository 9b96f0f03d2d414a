#include "server/tune_flow.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/digest.h"
#include "proto/base/dtype.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 40;

absl::StatusOr<wire::TuneRowRequest> RowRequestOf(
    const wire::TuneRequest& request) {
  if (request.target().kind_case() == wire::Target::KIND_NOT_SET) {
    return MakeError(ErrorReason::kBadTarget, "tune: no target");
  }
  const std::optional<DType> dtype = DTypeFromTorchName(request.dtype());
  if (!dtype.has_value()) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("tune: found dtype \"", request.dtype(),
                                  "\", one as float32 is due"));
  }
  const int64_t rows = request.rows();
  const int64_t columns = request.columns();
  if (rows < 1 || columns < 1 || columns >= kMaxElements / rows) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("tune: found ", rows, " rows of ", columns,
                                  " elements, 1 to 2^40 elements are due"));
  }
  wire::TuneRowRequest row;
  *row.mutable_target() = request.target();
  row.set_rows(rows);
  row.set_columns(columns);
  row.set_dtype(ToWire(*dtype));
  return row;
}

wire::TuneReply ReplyOf(const wire::TuningDecision& decision) {
  wire::TuneReply reply;
  reply.set_key(decision.key());
  reply.set_choice(decision.choice());
  *reply.mutable_choices() = decision.choices();
  *reply.mutable_seconds() = decision.seconds();
  return reply;
}

}  // namespace

absl::StatusOr<wire::TuneReply> TuneRow(const wire::TuneRequest& request,
                                        WorkerPool& pool, TuningCache& tuning,
                                        Counters& counters) {
  wire::WorkRequest work;
  ASSIGN_OR_RETURN(*work.mutable_tune_row(), RowRequestOf(request));
  const auto pending = pool.Submit(std::move(work));
  ASSIGN_OR_RETURN(const wire::WorkReply* reply, pending->Wait());
  if (!reply->has_measure() || reply->measure().key().empty()) {
    return absl::InternalError("worker: its reply to a tuning is no decision");
  }
  const wire::TuningDecision& decision = reply->measure();
  const absl::Status stored = tuning.Insert(request.target(), decision);
  if (!stored.ok()) {
    counters.Add(Count::kCacheStoreFailed);
    LogWarning("tuning.store_failed", {{"error", stored.ToString()}});
  }
  counters.Add(Count::kTuned);
  LogInfo("tuning.done",
          {{"key", decision.key()}, {"choice", decision.choice()}});
  return ReplyOf(decision);
}

}  // namespace kiln

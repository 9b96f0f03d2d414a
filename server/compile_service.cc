#include "server/compile_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "server/build_identity.h"
#include "server/cache_look.h"
#include "server/compile_stream.h"
#include "server/wire_status.h"

namespace kiln {
namespace {

// A call with no more time than this left has none: gRPC's server rounds
// deadlines up to its clock's milliseconds, so one that had passed when it came
// in may seem to have this much.
constexpr absl::Duration kNoTime = absl::Milliseconds(3);

// The lookups that gRPC's own threads read, in bytes: those with a digest, a target
// and some hundred sizes. A hit in memory then costs less than another thread does.
constexpr int64_t kReadAtOnce = 4096;

// Whose artifacts the caller may meet here.
void TellKeys(const KeyRing& keys, const Caller& caller,
              wire::DescribeReply& reply) {
  const PublicKey own = keys.SignerOf("")->public_key();
  reply.set_public_key(own.bytes());
  const std::shared_ptr<const TrustedKeys> trusted = keys.trusted();
  for (const TrustedKeys::Row& row : trusted->rows()) {
    if (row.key == own) continue;
    for (const std::string& name : row.namespaces) {
      // What namespaces there are is told to nobody else.
      if (!name.empty() && !caller.Require(Role::kReader, name, "").ok())
        continue;
      wire::TrustedKey& told = *reply.add_trusted_keys();
      told.set_public_key(row.key.bytes());
      told.set_cache_namespace(name);
    }
  }
  for (const std::string& id : trusted->revoked())
    reply.add_revoked_key_ids(id);
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* CompileService::Compile(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes) {
  counters_.Add(Count::kCallsCompile);
  const std::shared_ptr<CompileStream> call =
      CompileStream::Make(*context, flow_, calls_);
  absl::Status status;
  if (TimeLeft(DeadlineOf(*context)) <= kNoTime) {
    status = absl::DeadlineExceededError(
        "call: its deadline had passed when it came in");
  } else {
    status = Admit(*context, bytes, call);
  }
  if (!status.ok()) {
    counters_.Add(Count::kCallsRefused);
    call->Answer(status);
  }
  return call.get();
}

absl::Status CompileService::Admit(grpc::CallbackServerContext& context,
                                   const grpc::ByteBuffer* bytes,
                                   const std::shared_ptr<CompileStream>& call) {
  ASSIGN_OR_RETURN(Caller caller, gate_.Admit(context));
  RETURN_IF_ERROR(call->TakePlace(caller.identity));
  const std::string identity = caller.identity;
  // gRPC would keep them for as long as the call waits, and frees them when its caller
  // has gone, which may be before its turn here.
  const auto taken = std::make_shared<grpc::ByteBuffer>();
  taken->Swap(const_cast<grpc::ByteBuffer*>(bytes));
  const auto size = static_cast<int64_t>(taken->Length());
  return executor_.Run(
      identity, size, [this, taken, call, caller = std::move(caller)] {
        wire::CompileRequest request;
        const absl::Status decoded =
            Decode(*taken, facts_.max_message_bytes, "request", request);
        taken->Clear();
        if (!decoded.ok()) {
          counters_.Add(Count::kCallsRefused);
          call->Answer(decoded);
          return;
        }
        flow_.Run(caller, request, call);
      });
}

absl::StatusOr<Caller> CompileService::AdmitUnary(
    grpc::CallbackServerContext& context, UnaryCall& call) {
  ASSIGN_OR_RETURN(Caller caller, gate_.Admit(context));
  RETURN_IF_ERROR(call.TakePlace(caller.identity));
  return caller;
}

grpc::ServerUnaryReactor* CompileService::Lookup(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes,
    grpc::ByteBuffer* reply) {
  counters_.Add(Count::kCallsLookup);
  auto* const call = new UnaryCall(*context, lookups_, unread_);
  const auto answer = [this, call, reply](SharedAnswer found) {
    const absl::Status room = call->TakeBytes(found.bytes());
    if (room.ok()) {
      grpc::ByteBuffer bytes = BufferOf(std::move(found));
      reply->Swap(&bytes);
    } else {
      counters_.Add(Count::kCallsRefused);
    }
    call->Answer(room);
  };
  const absl::StatusOr<Caller> caller = AdmitUnary(*context, *call);
  absl::Status begun = caller.status();
  MemoryMiss missed;
  if (begun.ok() && bytes->Length() <= kReadAtOnce) {
    auto found = LookUpInMemory(*caller, *bytes, missed);
    if (found.ok() && found->has_value()) {
      answer(LookupReplyOf(**std::move(found)));
      return call;
    }
    begun = found.status();
  }
  const auto done = [this, call,
                     answer](const absl::StatusOr<SharedAnswer>& found) {
    if (found.ok()) return answer(*found);
    counters_.Add(Count::kCallsRefused);
    call->Answer(found.status());
  };
  if (begun.ok()) {
    begun = executor_.Run(
        caller->identity, static_cast<int64_t>(bytes->Length()),
        [this, bytes, done, caller = *caller, missed = std::move(missed)] {
          LookUp(caller, *bytes, missed, done);
        });
  }
  if (!begun.ok()) done(begun);
  return call;
}

absl::StatusOr<std::optional<ReadyHit>> CompileService::LookUpInMemory(
    const Caller& caller, const grpc::ByteBuffer& bytes, MemoryMiss& missed) {
  grpc::Slice whole;  // stays empty where they are in pieces
  static_cast<void>(bytes.TrySingleSlice(&whole));
  const absl::string_view text(reinterpret_cast<const char*>(whole.begin()),
                               whole.size());
  const auto known = known_.Find(text, pool_.build());
  if (known != nullptr) return flow_.LookupInMemory(caller, *known, missed);
  wire::LookupRequest request;
  RETURN_IF_ERROR(Decode(bytes, kReadAtOnce, "lookup", request));
  ASSIGN_OR_RETURN(LookupAsk ask, flow_.ReadLookup(request));
  auto found = flow_.LookupInMemory(caller, ask, missed);
  if (found.ok() && found->has_value() && !text.empty())
    known_.Keep(text, std::make_shared<const LookupAsk>(std::move(ask)));
  return found;
}

void CompileService::LookUp(const Caller& caller, const grpc::ByteBuffer& bytes,
                            const MemoryMiss& missed,
                            const CompileFlow::LookupDone& done) {
  wire::LookupRequest request;
  const absl::Status decoded =
      Decode(bytes, facts_.max_message_bytes, "lookup", request);
  if (!decoded.ok()) return done(decoded);
  flow_.Lookup(caller, request, missed, done);
}

// Its request has no fields, and is not looked at.
grpc::ServerUnaryReactor* CompileService::Describe(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer*,
    grpc::ByteBuffer* reply) {
  auto* const call = new UnaryCall(*context, lookups_, unread_);
  const absl::StatusOr<Caller> caller = AdmitUnary(*context, *call);
  absl::Status answered = caller.status();
  if (caller.ok()) {
    wire::DescribeReply told = DescriptionOf(pool_.identity(), facts_.version,
                                             facts_.max_message_bytes);
    TellKeys(keys_, *caller, told);
    *reply = Encode(told);
    answered = call->TakeBytes(static_cast<int64_t>(reply->Length()));
    if (!answered.ok()) reply->Clear();
  }
  call->Answer(answered);
  return call;
}

}  // namespace kiln

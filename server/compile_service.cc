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

grpc::ServerUnaryReactor* CompileService::Lookup(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes,
    grpc::ByteBuffer* reply) {
  counters_.Add(Count::kCallsLookup);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto done = [this, context, reactor,
                     reply](absl::StatusOr<wire::LookupReply> found) {
    const absl::Status status = found.status();
    if (found.ok()) *reply = Encode(*found);
    if (!status.ok()) counters_.Add(Count::kCallsRefused);
    reactor->Finish(EndCall(*context, status));
  };
  const absl::StatusOr<Caller> caller = gate_.Admit(*context);
  absl::Status begun = caller.status();
  if (begun.ok() && bytes->Length() <= kReadAtOnce) {
    auto found = LookUpInMemory(*caller, *bytes);
    if (found.ok() && found->has_value()) {
      *reply = BufferOf(LookupReplyOf(**std::move(found)));
      reactor->Finish(grpc::Status::OK);
      return reactor;
    }
    begun = found.status();
  }
  if (begun.ok()) {
    begun =
        executor_.Run(caller->identity, static_cast<int64_t>(bytes->Length()),
                      [this, bytes, done, caller = *caller] {
                        LookUp(caller, *bytes, done);
                      });
  }
  if (!begun.ok()) done(begun);
  return reactor;
}

absl::StatusOr<std::optional<ReadyHit>> CompileService::LookUpInMemory(
    const Caller& caller, const grpc::ByteBuffer& bytes) {
  wire::LookupRequest request;
  RETURN_IF_ERROR(Decode(bytes, kReadAtOnce, "lookup", request));
  return flow_.LookupInMemory(caller, request);
}

void CompileService::LookUp(const Caller& caller, const grpc::ByteBuffer& bytes,
                            const CompileFlow::LookupDone& done) {
  wire::LookupRequest request;
  const absl::Status decoded =
      Decode(bytes, facts_.max_message_bytes, "lookup", request);
  if (!decoded.ok()) return done(decoded);
  flow_.Lookup(caller, request, done);
}

// Its request has no fields, and is not looked at.
grpc::ServerUnaryReactor* CompileService::Describe(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer*,
    grpc::ByteBuffer* reply) {
  const absl::StatusOr<Caller> caller = gate_.Admit(*context);
  if (caller.ok()) {
    wire::DescribeReply told = DescriptionOf(pool_.identity(), facts_.version,
                                             facts_.max_message_bytes);
    TellKeys(keys_, *caller, told);
    *reply = Encode(told);
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(EndCall(*context, caller.status()));
  return reactor;
}

}  // namespace kiln

#include "server/cache_service.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "server/unary_call.h"
#include "server/wire_status.h"

namespace kiln {
namespace {

// Threads, and calls that wait for one. They read the disk and check signatures.
constexpr int kThreads = 2;
constexpr int64_t kMostQueued = 1024;
constexpr int64_t kMostQueuedBytes = int64_t{256} << 20;
// Calls under way, and the bytes of their requests, and of replies that nobody has read
// yet. A caller gets what is left for others.
constexpr int64_t kMostCalls = 2 * kMostQueued;
constexpr int64_t kMostBytes = int64_t{256} << 20;
// What a message has beside the record in it.
constexpr int64_t kEnvelopeBytes = 4096;

absl::StatusOr<Digest> DigestIn(const std::string& bytes,
                                absl::string_view what) {
  if (const std::optional<Digest> digest = Digest::FromBytes(bytes))
    return *digest;
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat("record: ", what, ": found ", bytes.size(),
                                " bytes, expected 32"));
}

absl::StatusOr<FarName> NameIn(const wire::RecordName& name) {
  FarName read;
  ASSIGN_OR_RETURN(read.key, DigestIn(name.key(), "key"));
  if (!name.entry().empty()) {
    ASSIGN_OR_RETURN(read.entry, DigestIn(name.entry(), "entry"));
  }
  return read;
}

std::string TextOf(const FarName& name) {
  if (!name.entry.has_value())
    return absl::StrCat("unit ", name.key.ShortHex());
  return absl::StrCat("key ", name.key.ShortHex(), " entry ",
                      name.entry->ShortHex());
}

// The namespace in which a change needs a role. Units belong to everybody.
absl::string_view ChangeOf(const FarName& name,
                           const std::string& cache_namespace) {
  return name.entry.has_value() ? absl::string_view(cache_namespace)
                                : kEveryNamespace;
}

}  // namespace

CacheService::CacheService(const Gatekeeper& gate, NearRecords& records,
                           UnreadCalls& unread, Counters& counters,
                           int64_t max_record_bytes)
    : gate_(gate),
      records_(records),
      unread_(unread),
      counters_(counters),
      max_record_bytes_(max_record_bytes),
      shares_("records of caller", {.places = kMostCalls, .bytes = kMostBytes}),
      executor_(kThreads, {.places = kMostQueued, .bytes = kMostQueuedBytes}) {}

template <typename Request, typename Work>
grpc::ServerUnaryReactor* CacheService::Serve(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes,
    grpc::ByteBuffer* reply, const Act& act, Work work) {
  counters_.Add(Count::kCallsRecords);
  auto* const call = new UnaryCall(*context, shares_, unread_);
  const auto end = [this, call](const absl::Status& status) {
    if (!status.ok() && !absl::IsNotFound(status))
      counters_.Add(Count::kCallsRefused);
    call->Answer(status);
  };
  const auto size = static_cast<int64_t>(bytes->Length());
  absl::StatusOr<Caller> caller = gate_.Admit(*context);
  absl::Status begun = caller.status();
  if (begun.ok()) begun = gate_.RequireSomewhere(*caller, act.role, act.name);
  if (begun.ok()) begun = call->TakePlace(caller->identity);
  if (begun.ok()) begun = call->TakeBytes(size);
  if (begun.ok()) {
    const std::string identity = caller->identity;
    begun =
        executor_.Run(identity, size, [=, this, caller = *std::move(caller)] {
          // Its caller's budget is over before its turn came.
          if (context->IsCancelled()) return end(absl::CancelledError());
          Request request;
          const absl::Status decoded = Decode(
              *bytes, max_record_bytes_ + kEnvelopeBytes, "record", request);
          if (!decoded.ok()) return end(decoded);
          auto answer = work(caller, request);
          absl::Status status = answer.status();
          if (status.ok()) {
            *reply = Encode(*answer);
            status = call->TakeBytes(static_cast<int64_t>(reply->Length()));
            if (!status.ok()) reply->Clear();
          }
          end(status);
        });
  }
  if (!begun.ok()) end(begun);
  return call;
}

grpc::ServerUnaryReactor* CacheService::Hints(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* reply) {
  return Serve<wire::HintsRequest>(
      context, request, reply, {"hints", Role::kReader},
      [this](const Caller& caller, const wire::HintsRequest& asked) {
        return FindHints(caller, asked);
      });
}

grpc::ServerUnaryReactor* CacheService::Get(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* reply) {
  return Serve<wire::GetRecordRequest>(
      context, request, reply, {"get_record", Role::kReader},
      [this](const Caller& caller, const wire::GetRecordRequest& asked) {
        return GetRecord(caller, asked);
      });
}

grpc::ServerUnaryReactor* CacheService::Put(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* reply) {
  return Serve<wire::PutRecordRequest>(
      context, request, reply, {"put_record", Role::kPublisher},
      [this](const Caller& caller, wire::PutRecordRequest& asked) {
        return PutRecord(caller, asked);
      });
}

grpc::ServerUnaryReactor* CacheService::Erase(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* reply) {
  return Serve<wire::EraseRecordRequest>(
      context, request, reply, {"erase_record", Role::kAdmin},
      [this](const Caller& caller, const wire::EraseRecordRequest& asked) {
        return EraseRecord(caller, asked);
      });
}

absl::StatusOr<wire::HintsReply> CacheService::FindHints(
    const Caller& caller, const wire::HintsRequest& request) {
  ASSIGN_OR_RETURN(const Digest key, DigestIn(request.key(), "key"));
  wire::HintsReply reply;
  absl::StatusOr<NearRecords::KeyHints> found = records_.Hints(key);
  if (absl::IsNotFound(found.status())) return reply;
  RETURN_IF_ERROR(found.status());
  // Who may not read there learns no more than that of a key that is not known.
  if (!gate_.Require(caller, Role::kReader, found->cache_namespace, "hints")
           .ok())
    return reply;
  for (FarHint& hint : found->hints) {
    wire::HintsReply::Hint& out = *reply.add_hints();
    out.set_entry(std::move(hint.id));
    out.set_hint(std::move(hint.hint));
  }
  return reply;
}

absl::StatusOr<wire::GetRecordReply> CacheService::GetRecord(
    const Caller& caller, const wire::GetRecordRequest& request) {
  ASSIGN_OR_RETURN(const FarName name, NameIn(request.name()));
  ASSIGN_OR_RETURN(NearRecords::Record found, records_.Get(name));
  if (name.entry.has_value() &&
      !gate_.Require(caller, Role::kReader, found.cache_namespace, "get_record")
           .ok()) {
    return absl::NotFoundError("not stored");
  }
  if (found.bytes.size() > request.max_bytes()) {
    return MakeError(
        ErrorReason::kTooLarge,
        absl::StrCat(TextOf(name), ": found ", found.bytes.size(),
                     " bytes, expected at most ", request.max_bytes()));
  }
  wire::GetRecordReply reply;
  reply.set_record(std::move(found.bytes));
  counters_.Add(Count::kRecordsGiven);
  return reply;
}

absl::StatusOr<wire::PutRecordReply> CacheService::PutRecord(
    const Caller& caller, wire::PutRecordRequest& request) {
  ASSIGN_OR_RETURN(const FarName name, NameIn(request.name()));
  const absl::StatusOr<NearRecords::Offer> offer =
      records_.Open(name, std::move(*request.mutable_record()));
  if (!offer.ok()) {
    counters_.Add(Count::kRecordsRefused);
    gate_.Record(caller, "put_record", TextOf(name), offer.status());
    return offer.status();
  }
  RETURN_IF_ERROR(gate_.Require(caller, Role::kPublisher,
                                ChangeOf(name, offer->cache_namespace()),
                                "put_record"));
  const absl::Status kept = records_.Keep(*offer);
  const std::string subject =
      name.entry.has_value()
          ? absl::StrCat(offer->cache_namespace(), " ", TextOf(name))
          : TextOf(name);
  if (!kept.ok()) {
    gate_.Record(caller, "put_record", subject, kept);
    return kept;
  }
  gate_.RecordOften(caller, "put_record", subject);
  counters_.Add(Count::kRecordsTaken);
  return wire::PutRecordReply();
}

absl::StatusOr<wire::EraseRecordReply> CacheService::EraseRecord(
    const Caller& caller, const wire::EraseRecordRequest& request) {
  ASSIGN_OR_RETURN(const FarName name, NameIn(request.name()));
  wire::EraseRecordReply reply;
  const absl::StatusOr<NearRecords::Record> found = records_.Get(name);
  if (absl::IsNotFound(found.status())) return reply;
  RETURN_IF_ERROR(found.status());
  if (!gate_
           .Require(caller, Role::kAdmin,
                    ChangeOf(name, found->cache_namespace), "erase_record")
           .ok())
    return reply;
  const absl::Status erased = records_.Erase(name);
  gate_.Record(caller, "erase_record", TextOf(name), erased);
  RETURN_IF_ERROR(erased);
  reply.set_was_there(true);
  return reply;
}

}  // namespace kiln

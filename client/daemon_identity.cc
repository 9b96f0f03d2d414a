#include "client/daemon_identity.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/daemon_status.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/compile_service.grpc.pb.h"

namespace kiln {
namespace {

absl::StatusOr<TrustedKeys> KeysSaid(const wire::DescribeReply& reply) {
  ASSIGN_OR_RETURN(const PublicKey own,
                   PublicKey::FromBytes(reply.public_key()));
  TrustedKeys keys = {own};
  for (const wire::TrustedKey& told : reply.trusted_keys()) {
    ASSIGN_OR_RETURN(const PublicKey key,
                     PublicKey::FromBytes(told.public_key()));
    keys.Add(key, told.cache_namespace());
  }
  return keys;
}

absl::Status Describe(wire::CompileService::Stub& stub, SteadyTime deadline,
                      wire::DescribeReply& reply, absl::string_view what) {
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  const grpc::Status status =
      stub.Describe(&context, wire::DescribeRequest(), &reply);
  return StatusOfCall(status, context, what);
}

// The keys' ids, of many the first few.
std::string IdsOf(const std::vector<PublicKey>& keys) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < keys.size() && i < kShown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ",
                    absl::BytesToHexString(keys[i].key_id()));
  }
  return keys.size() > kShown ? absl::StrCat(text, ", ...") : text;
}

}  // namespace

absl::StatusOr<wire::DescribeReply> AskWhoItIs(
    const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout,
    absl::string_view what) {
  const auto stub = wire::CompileService::NewStub(channel);
  const SteadyTime deadline = SteadyIn(timeout);
  wire::DescribeReply reply;
  absl::Status outcome = Describe(*stub, deadline, reply, what);
  // A daemon that was stopped for a while may answer too early that the time is
  // over, since it measures the first deadlines from the time before its stop.
  if (absl::IsDeadlineExceeded(outcome) &&
      TimeLeft(deadline) > absl::ZeroDuration()) {
    outcome = Describe(*stub, deadline, reply, what);
  }
  // A daemon that does not say who it is in time is as good as none.
  if (absl::IsDeadlineExceeded(outcome)) {
    return MarkSilent(absl::UnavailableError(outcome.message()));
  }
  RETURN_IF_ERROR(outcome);
  return reply;
}

absl::StatusOr<TrustedKeys> KeysOf(const DaemonAddress& address,
                                   const wire::DescribeReply& reply) {
  ASSIGN_OR_RETURN(const TrustedKeys said, KeysSaid(reply));
  TrustedKeys keys = said;
  if (!address.public_keys.empty()) keys = address.public_keys;
  for (const std::string& id : reply.revoked_key_ids()) keys.Revoke(id);
  const std::vector<TrustedKeys::Row> left = keys.rows();
  const bool meets = std::any_of(left.begin(), left.end(),
                                 [&said](const TrustedKeys::Row& row) {
                                   return said.Find(row.key.key_id()).ok();
                                 });
  if (meets || !address.socket.empty()) return keys;
  ASSIGN_OR_RETURN(const PublicKey own,
                   PublicKey::FromBytes(reply.public_key()));
  return MakeError(
      ErrorReason::kArtifactUntrusted,
      absl::StrCat(
          "kilnd at ", address.Text(), ": signs with key ",
          absl::BytesToHexString(own.key_id()), " (",
          absl::BytesToHexString(own.bytes()), "), which is not one of the ",
          address.public_keys.size(), " trusted keys (",
          IdsOf(address.public_keys),
          "); `compilectl keys list` on the daemon's machine shows the right "
          "one"));
}

absl::Status CheckIdentity(const std::shared_ptr<grpc::Channel>& channel,
                           const DaemonAddress& address) {
  if (!address.socket.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const wire::DescribeReply said,
                   AskWhoItIs(channel, address.answer_timeout, "kilnd"));
  return KeysOf(address, said).status();
}

}  // namespace kiln

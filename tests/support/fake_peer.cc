#include "tests/support/fake_peer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/grpc_deadline.h"
#include "server/tls_files.h"

namespace kiln {
namespace {

SteadyTime Soon() { return After(SteadyNow(), absl::Seconds(20)); }

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()),
          std::string(status.message())};
}

}  // namespace

FakePeer::FakePeer(FarStore& store, const TestCa::Files& own,
                   const std::string& ca)
    : store_(store),
      credentials_(ServerTls(
          {.certificate = own.certificate, .key = own.key, .client_ca = ca})) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", credentials_, &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  EXPECT_NE(server_, nullptr);
}

FakePeer::~FakePeer() {
  Thaw();
  server_->Shutdown(ToGrpcDeadline(SteadyNow()));
}

std::string FakePeer::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

void FakePeer::AnswerHints(
    std::function<grpc::Status(wire::HintsReply&)> answer) {
  MutexLock lock(&mu_);
  hints_ = std::move(answer);
}

void FakePeer::AnswerGet(
    std::function<grpc::Status(wire::GetRecordReply&)> answer) {
  MutexLock lock(&mu_);
  get_ = std::move(answer);
}

void FakePeer::Freeze() {
  MutexLock lock(&mu_);
  frozen_ = true;
}

void FakePeer::Thaw() {
  MutexLock lock(&mu_);
  frozen_ = false;
  thawed_.SignalAll();
}

void FakePeer::WaitWhileFrozen() {
  MutexLock lock(&mu_);
  while (frozen_) thawed_.Wait(&mu_);
}

grpc::Status FakePeer::Hints(grpc::ServerContext*,
                             const wire::HintsRequest* request,
                             wire::HintsReply* reply) {
  WaitWhileFrozen();
  std::function<grpc::Status(wire::HintsReply&)> lie;
  {
    MutexLock lock(&mu_);
    lie = hints_;
  }
  if (lie) return lie(*reply);
  const auto hints = store_.Hints(*Digest::FromBytes(request->key()), Soon());
  if (!hints.ok()) return ToGrpc(hints.status());
  for (const FarHint& hint : *hints) {
    wire::HintsReply::Hint& out = *reply->add_hints();
    out.set_entry(hint.id);
    out.set_hint(hint.hint);
  }
  return grpc::Status::OK;
}

grpc::Status FakePeer::Get(grpc::ServerContext*,
                           const wire::GetRecordRequest* request,
                           wire::GetRecordReply* reply) {
  WaitWhileFrozen();
  std::function<grpc::Status(wire::GetRecordReply&)> lie;
  {
    MutexLock lock(&mu_);
    lie = get_;
  }
  if (lie) return lie(*reply);
  const auto record = store_.Get({*Digest::FromBytes(request->name().key()),
                                  Digest::FromBytes(request->name().entry())},
                                 Soon());
  if (!record.ok()) return ToGrpc(record.status());
  reply->set_record(*record);
  return grpc::Status::OK;
}

}  // namespace kiln

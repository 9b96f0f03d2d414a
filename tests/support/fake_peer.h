#ifndef KILN_TESTS_SUPPORT_FAKE_PEER_H_
#define KILN_TESTS_SUPPORT_FAKE_PEER_H_

#include <functional>
#include <memory>
#include <string>

#include "cache/far/far_store.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/mutex.h"
#include "proto/cache_service.grpc.pb.h"
#include "tests/support/test_ca.h"

namespace kiln {

// A peer daemon that says whatever a test wants it to: it serves a FarStore's
// records over TLS, on a port of 127.0.0.1, and can be made to lie or to be silent.
class FakePeer final : public wire::CacheService::Service {
 public:
  // The store outlives this. `own` is what the peer shows; `ca` is who signs.
  FakePeer(FarStore& store, const TestCa::Files& own, const std::string& ca);
  ~FakePeer() override;

  // "127.0.0.1:40123".
  std::string address() const;

  // Instead of the store's answers, from now on.
  void AnswerHints(std::function<grpc::Status(wire::HintsReply&)> answer)
      ABSL_LOCKS_EXCLUDED(mu_);
  void AnswerGet(std::function<grpc::Status(wire::GetRecordReply&)> answer)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Calls wait, until Thaw.
  void Freeze() ABSL_LOCKS_EXCLUDED(mu_);
  void Thaw() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  grpc::Status Hints(grpc::ServerContext* context,
                     const wire::HintsRequest* request,
                     wire::HintsReply* reply) override;
  grpc::Status Get(grpc::ServerContext* context,
                   const wire::GetRecordRequest* request,
                   wire::GetRecordReply* reply) override;
  void WaitWhileFrozen() ABSL_LOCKS_EXCLUDED(mu_);

  FarStore& store_;
  Mutex mu_;
  CondVar thawed_;
  bool frozen_ ABSL_GUARDED_BY(mu_) = false;
  std::function<grpc::Status(wire::HintsReply&)> hints_ ABSL_GUARDED_BY(mu_);
  std::function<grpc::Status(wire::GetRecordReply&)> get_ ABSL_GUARDED_BY(mu_);
  int port_ = 0;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_FAKE_PEER_H_

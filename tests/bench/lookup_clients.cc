#include "tests/bench/lookup_clients.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "tests/bench/bench_daemon.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

// One client: a lookup begins when the one before has been answered.
class Client {
 public:
  Client(std::shared_ptr<grpc::Channel> channel,
         const std::function<bool(size_t)>& goes_on,
         std::function<void(bool)> done)
      : channel_(std::move(channel)),
        stub_(wire::CompileService::NewStub(channel_)),
        goes_on_(goes_on),
        done_(std::move(done)) {}

  void Begin(const std::vector<wire::LookupRequest>& requests) {
    context_ = std::make_unique<grpc::ClientContext>();
    begun_ = Clock::now();
    const wire::LookupRequest& request =
        requests[micros_.size() % requests.size()];
    stub_->async()->Lookup(
        context_.get(), &request, &reply_,
        [this, &requests](const grpc::Status& status) {
          micros_.push_back(
              std::chrono::duration<float, std::micro>(Clock::now() - begun_)
                  .count());
          const bool hit =
              status.ok() && reply_.outcome() == wire::LookupReply::OUTCOME_HIT;
          if (!hit || !goes_on_(micros_.size())) {
            done_(hit);
          } else {
            Begin(requests);
          }
        });
  }
  const std::vector<float>& micros() const { return micros_; }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<wire::CompileService::Stub> stub_;
  const std::function<bool(size_t)>& goes_on_;
  const std::function<void(bool)> done_;
  std::unique_ptr<grpc::ClientContext> context_;
  wire::LookupReply reply_;
  Clock::time_point begun_;
  std::vector<float> micros_;
};

}  // namespace

std::vector<float> RunLookups(const std::string& socket, int count,
                              const std::vector<wire::LookupRequest>& asked,
                              const std::function<bool(size_t made)>& goes_on) {
  std::mutex mu;
  std::condition_variable changed;
  int left = count;
  bool good = true;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < count; ++i) {
    auto channel = ConnectTo(socket);
    if (channel == nullptr) return {};
    clients.push_back(
        std::make_unique<Client>(std::move(channel), goes_on, [&](bool hit) {
          const std::lock_guard<std::mutex> lock(mu);
          good = good && hit;
          if (--left == 0) changed.notify_all();
        }));
  }
  for (const auto& client : clients) client->Begin(asked);
  std::unique_lock<std::mutex> lock(mu);
  changed.wait(lock, [&] { return left == 0; });
  std::vector<float> all;
  for (const auto& client : clients)
    all.insert(all.end(), client->micros().begin(), client->micros().end());
  std::sort(all.begin(), all.end());
  if (!good) all.clear();
  return all;
}

float At(const std::vector<float>& sorted, double share) {
  return sorted[static_cast<size_t>(share *
                                    static_cast<double>(sorted.size() - 1))];
}

void TellPercentiles(const char* name, const std::vector<float>& sorted) {
  std::printf("  %-22s p50 %8.0f us   p99 %8.0f us   p99.9 %8.0f us\n", name,
              At(sorted, 0.5), At(sorted, 0.99), At(sorted, 0.999));
}

}  // namespace kiln

#include "client/daemon_routes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>

#include "client/daemon_status.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/key/request_digest.h"

namespace kiln {
namespace {

uint64_t ScoreOf(const std::string& place, absl::string_view request_digest) {
  const Digest digest =
      Sha256().AddField(place).AddField(request_digest).Finish();
  uint64_t score = 0;
  std::memcpy(&score, digest.bytes().data(), sizeof(score));
  return score;
}

bool MayAskAnother(const absl::Status& status) {
  return DaemonIsGone(status) || DaemonIsSilent(status);
}

}  // namespace

std::vector<size_t> OrderOfPlaces(const std::vector<std::string>& places,
                                  absl::string_view request_digest) {
  std::vector<uint64_t> scores;
  for (const std::string& place : places)
    scores.push_back(ScoreOf(place, request_digest));
  std::vector<size_t> order(places.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b]
                                  : places[a] < places[b];
  });
  return order;
}

DaemonRoutes::DaemonRoutes(std::vector<DaemonLinkOptions> daemons) {
  for (DaemonLinkOptions& options : daemons) {
    std::string place = options.daemon.Text();
    places_.push_back(place);
    routes_.push_back({.place = std::move(place),
                       .link = std::make_unique<DaemonLink>(std::move(options)),
                       .away = std::make_unique<CircuitBreaker>(kAwayPause)});
  }
}

absl::Status DaemonRoutes::Connect() {
  absl::Status first;
  bool reached = false;
  for (Route& route : routes_) {
    const absl::Status status = route.link->Connect();
    reached |= status.ok();
    if (!status.ok() && routes_.size() > 1) route.away->KeptSilent(SteadyNow());
    if (first.ok()) first = status;
  }
  return reached ? absl::OkStatus() : first;
}

absl::StatusOr<CompileOutcome> DaemonRoutes::Compile(
    const wire::CompileRequest& request) {
  if (routes_.size() == 1) return routes_[0].link->Compile(request);
  ASSIGN_OR_RETURN(const CanonicalRequest canonical,
                   CanonicalizeRequest(request));
  const std::vector<size_t> order =
      OrderOfPlaces(places_, canonical.digest.total.bytes());
  absl::StatusOr<CompileOutcome> answer = absl::UnavailableError("");
  bool asked = false;
  for (const size_t number : order) {
    Route& route = routes_[number];
    if (!route.away->MayAsk(SteadyNow())) continue;
    asked = true;
    answer = Ask(route, request);
    if (answer.ok() || !MayAskAnother(answer.status())) return answer;
  }
  // All were gone a moment ago: the request's own may be back.
  return asked ? answer : Ask(routes_[order[0]], request);
}

absl::StatusOr<CompileOutcome> DaemonRoutes::Ask(
    Route& route, const wire::CompileRequest& request) {
  absl::StatusOr<CompileOutcome> answer = route.link->Compile(request);
  if (MayAskAnother(answer.status())) {
    route.away->KeptSilent(SteadyNow());
  } else {
    route.away->Answered();
  }
  return answer;
}

TrustedKeys DaemonRoutes::keys() const {
  TrustedKeys all;
  for (const Route& route : routes_) all.Merge(route.link->keys());
  return all;
}

absl::Status DaemonRoutes::RefreshKeys() {
  absl::Status first;
  for (Route& route : routes_) first.Update(route.link->RefreshKeys());
  return first;
}

}  // namespace kiln

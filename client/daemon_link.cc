#include "client/daemon_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/daemon_status.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"

namespace kiln {

absl::Status DaemonLink::Connect() {
  return ConnectTo(options_.daemon).status();
}

absl::StatusOr<CompileOutcome> DaemonLink::Compile(
    const wire::CompileRequest& request) {
  if (!breaker_.MayAsk(SteadyNow())) {
    MutexLock lock(&mu_);
    return silence_;
  }
  const std::string place = Place();
  absl::StatusOr<CompileOutcome> answer = Ask(request);
  if (!DaemonIsGone(answer.status()) && !DaemonIsSilent(answer.status())) {
    return answer;
  }
  RETURN_IF_ERROR(FindAnother(place, answer.status()));
  return Ask(request);
}

TrustedKeys DaemonLink::keys() const {
  const Client now = client();
  return now == nullptr ? TrustedKeys() : now->keys();
}

absl::Status DaemonLink::RefreshKeys() {
  const Client now = client();
  if (now == nullptr || !breaker_.MayAsk(SteadyNow())) return absl::OkStatus();
  return Heard(now->RefreshKeys(), now->address());
}

DaemonLink::Client DaemonLink::client() const {
  MutexLock lock(&mu_);
  return client_;
}

std::string DaemonLink::Place() const {
  const Client now = client();
  return now == nullptr ? options_.daemon.Text() : now->address().Text();
}

absl::StatusOr<DaemonLink::Client> DaemonLink::ConnectTo(
    const DaemonAddress& address) {
  absl::StatusOr<Client> client = CompileClient::Connect(address);
  RETURN_IF_ERROR(Heard(client.status(), address));
  MutexLock lock(&mu_);
  client_ = *client;
  return client;
}

absl::StatusOr<CompileOutcome> DaemonLink::Ask(
    const wire::CompileRequest& request) {
  Client client = this->client();
  if (client == nullptr) {
    // It may have come up since.
    ASSIGN_OR_RETURN(client, ConnectTo(options_.daemon));
  }
  CompileCall call = {.deadline = SteadyIn(options_.compile_deadline)};
  call.on_progress = [&](const wire::Progress& progress) {
    breaker_.Answered();
    if (options_.on_progress) {
      options_.on_progress(request.graph().name(), progress);
    }
  };
  absl::StatusOr<CompileOutcome> answer = client->Compile(request, call);
  const absl::Status heard = Heard(answer.status(), client->address());
  if (KnowsOtherOptions(heard)) return Annotate(heard, client->build());
  RETURN_IF_ERROR(heard);
  return answer;
}

absl::Status DaemonLink::FindAnother(const std::string& place,
                                     const absl::Status& why) {
  if (!options_.find_daemon) return why;
  const std::optional<DaemonAddress> found = options_.find_daemon();
  if (!found.has_value()) return why;
  // One that is silent still listens, and is found; it would be silent again.
  if (DaemonIsSilent(why) && found->Text() == place) return why;
  const absl::Status connected = ConnectTo(*found).status();
  return connected.ok() || DaemonIsSilent(connected) ? connected : why;
}

absl::Status DaemonLink::Heard(const absl::Status& status,
                               const DaemonAddress& from) {
  if (!DaemonIsSilent(status)) {
    // A compile that took too long tells nothing of the daemon.
    if (!absl::IsDeadlineExceeded(status)) breaker_.Answered();
    return status;
  }
  std::string words =
      absl::StrCat("kilnd at ", from.Text(), ": does not answer");
  if (options_.silence_pause > absl::ZeroDuration()) {
    absl::StrAppend(&words, "; the next try is in ",
                    absl::FormatDuration(options_.silence_pause));
  }
  MutexLock lock(&mu_);
  silence_ = MarkSilent(absl::Status(status.code(), words));
  breaker_.KeptSilent(SteadyNow());
  return silence_;
}

}  // namespace kiln

#include "server/begun_calls.h"

#include <algorithm>
#include <utility>

namespace kiln {

BegunCalls::Heard::Heard(Heard&& other) noexcept
    : begun_(std::exchange(other.begun_, nullptr)),
      connection_(other.connection_),
      others_refused_(other.others_refused_),
      answered_(other.answered_) {}

BegunCalls::Heard::~Heard() {
  if (begun_ != nullptr) begun_->End(connection_, answered_);
}

void BegunCalls::Heard::HearAnswer() {
  if (begun_ == nullptr) return;
  answered_ = true;
  begun_->CountAnswer(connection_);
}

uint64_t BegunCalls::NewConnection() {
  MutexLock lock(&mu_);
  return ++last_connection_;
}

bool BegunCalls::Begin(uint64_t connection) {
  const SteadyTime now = clock_.Steady();
  MutexLock lock(&mu_);
  if (Between(period_, now) >= kForgotten) EndPeriod(now);
  Row& row = rows_[connection];
  if (row.calls() >= limits_.at_once) {
    if (row.calls() >= limits_.of_a_connection ||
        Beyond(row) >= limits_.beyond - beyond_) {
      if (row.calls() - row.answered >= limits_.at_once) row.refused = true;
      return false;
    }
    ++beyond_;
  }
  ++row.unheard;
  ++row.begun;
  return true;
}

BegunCalls::Heard BegunCalls::Hear(uint64_t connection) {
  MutexLock lock(&mu_);
  Row& row = rows_[connection];
  beyond_ -= Beyond(row);
  row.unheard = std::max<int64_t>(0, row.unheard - 1);
  ++row.heard;
  beyond_ += Beyond(row);
  return {this, connection, std::exchange(row.refused, false)};
}

void BegunCalls::CountAnswer(uint64_t connection) {
  MutexLock lock(&mu_);
  ++rows_.find(connection)->second.answered;
}

void BegunCalls::End(uint64_t connection, bool answered) {
  MutexLock lock(&mu_);
  const auto found = rows_.find(connection);
  Row& row = found->second;
  beyond_ -= Beyond(row);
  --row.heard;
  row.answered -= answered;
  beyond_ += Beyond(row);
  if (row.calls() == 0 && !row.refused) rows_.erase(found);
}

void BegunCalls::EndPeriod(SteadyTime now) {
  period_ = now;
  beyond_ = 0;
  for (auto& [connection, row] : rows_) {
    row.unheard = std::min(row.unheard, row.begun);
    row.begun = 0;
    beyond_ += Beyond(row);
  }
  absl::erase_if(rows_,
                 [](const auto& row) { return row.second.calls() == 0; });
}

size_t BegunCalls::known_connections() const {
  MutexLock lock(&mu_);
  return rows_.size();
}

}  // namespace kiln

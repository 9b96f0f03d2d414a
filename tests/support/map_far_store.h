#ifndef KILN_TESTS_SUPPORT_MAP_FAR_STORE_H_
#define KILN_TESTS_SUPPORT_MAP_FAR_STORE_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cache/far/far_store.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"

namespace kiln {

// A FarStore in memory, whose records a test can change.
class MapFarStore final : public FarStore {
 public:
  absl::StatusOr<std::vector<FarHint>> Hints(const Digest& key,
                                             SteadyTime) override {
    std::function<void()> before;
    {
      MutexLock lock(&mu_);
      before = before_hints_;
    }
    if (before) before();
    MutexLock lock(&mu_);
    ++hints_asked_;
    RETURN_IF_ERROR(failure_);
    std::vector<FarHint> found;
    for (const auto& [id, hint] : hints_[key.ToBytes()])
      found.push_back({.id = id, .hint = hint});
    return found;
  }
  absl::StatusOr<std::string> Get(const FarName& name, SteadyTime) override {
    MutexLock lock(&mu_);
    RETURN_IF_ERROR(failure_);
    const auto found = records_.find(Text(name));
    if (found == records_.end()) return absl::NotFoundError("none");
    return found->second;
  }
  absl::Status Put(const FarName& name, absl::string_view hint,
                   absl::string_view record, SteadyTime) override {
    MutexLock lock(&mu_);
    RETURN_IF_ERROR(failure_);
    records_[Text(name)] = std::string(record);
    if (name.entry.has_value())
      hints_[name.key.ToBytes()][name.entry->ToBytes()] = std::string(hint);
    put_.SignalAll();
    return absl::OkStatus();
  }
  bool WasLeftAlone(const absl::Status& status) const override {
    return absl::IsAborted(status);
  }

  void AwaitRecords(size_t due) {
    MutexLock lock(&mu_);
    while (records_.size() < due) put_.Wait(&mu_);
  }
  // Of all asks and writes from now on.
  void Fail(absl::Status failure) {
    MutexLock lock(&mu_);
    failure_ = std::move(failure);
  }
  void CallBeforeHints(std::function<void()> call) {
    MutexLock lock(&mu_);
    before_hints_ = std::move(call);
  }
  int hints_asked() {
    MutexLock lock(&mu_);
    return hints_asked_;
  }
  std::string& Record(const FarName& name) {
    MutexLock lock(&mu_);
    return records_[Text(name)];
  }
  std::string& Hint(const Digest& key, const Digest& id) {
    MutexLock lock(&mu_);
    return hints_[key.ToBytes()][id.ToBytes()];
  }

 private:
  static std::string Text(const FarName& name) {
    return name.key.Hex() +
           (name.entry.has_value() ? name.entry->Hex() : "unit");
  }

  Mutex mu_;
  CondVar put_;
  int hints_asked_ = 0;
  absl::Status failure_;
  std::function<void()> before_hints_;
  std::map<std::string, std::map<std::string, std::string>> hints_;
  std::map<std::string, std::string> records_;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_MAP_FAR_STORE_H_

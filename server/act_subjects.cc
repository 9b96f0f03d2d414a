#include "server/act_subjects.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "proto/key/token_name.h"
#include "server/access/caller.h"

namespace kiln {
namespace {

std::string LifeText(int64_t ms) {
  return absl::FormatDuration(absl::Milliseconds(ms));
}

// People also paste a token where a key or a namespace is expected.
std::string WithoutSecret(absl::string_view given) {
  return std::string(given == kEveryNamespace ? given : TokenNameIn(given));
}

std::string KeyText(const std::string& prefix_hex) {
  return prefix_hex.empty() ? ""
                            : absl::StrCat("key ", WithoutSecret(prefix_hex));
}

// The words that are there, in order.
class Words {
 public:
  void Add(absl::string_view before, const std::string& word) {
    if (!word.empty()) words_.push_back(absl::StrCat(before, word));
  }
  std::string Text() const { return absl::StrJoin(words_, " "); }

 private:
  std::vector<std::string> words_;
};

// A request that goes on with one before, which stands in a line of its own.
std::string PlaceText(const std::string& after) {
  return after.empty() ? "" : absl::BytesToHexString(after).substr(0, 6);
}

}  // namespace

std::string SubjectOf(const wire::QuarantineRequest& asked) {
  return asked.clear_all() ? "all" : KeyText(asked.clear_prefix_hex());
}

std::string SubjectOf(const wire::PurgeRequest& asked) {
  Words words;
  words.Add("", asked.all() ? "all" : "");
  words.Add("", KeyText(asked.key_prefix_hex()));
  if (asked.older_than_ms() != 0)
    words.Add("older than ", LifeText(asked.older_than_ms()));
  words.Add("on ", WithoutSecret(asked.device()));
  words.Add("in ", asked.cache_namespace());
  words.Add("from key ", PlaceText(asked.after()));
  return words.Text();
}

std::string SubjectOf(const wire::PinRequest& asked) {
  Words words;
  words.Add("", KeyText(asked.key_prefix_hex()));
  words.Add("in ", asked.cache_namespace());
  words.Add("from key ", PlaceText(asked.after()));
  return words.Text();
}

std::string SubjectOf(const wire::MaintainRequest& asked) {
  if (asked.stop()) return "stop";
  switch (asked.task()) {
    case wire::MaintainRequest::TASK_SCRUB:
      return "scrub";
    case wire::MaintainRequest::TASK_VERIFY:
      return "verify";
    case wire::MaintainRequest::TASK_COMPACT:
      return "compact";
    default:  // an open enumeration: a newer caller's
      return absl::StrCat("task ", static_cast<int>(asked.task()));
  }
}

std::string SubjectOf(const wire::AddTokenRequest& asked) {
  Words words;
  words.Add("", absl::StrCat(WithoutSecret(asked.name()), ": ",
                             WithoutSecret(asked.role()), " in"));
  words.Add("", absl::StrJoin(asked.namespaces(), ", ",
                              [](std::string* out, absl::string_view named) {
                                out->append(WithoutSecret(named));
                              }));
  words.Add("for ", LifeText(asked.life_ms()));
  return words.Text();
}

std::string SubjectOf(const wire::RevokeTokenRequest& asked) {
  return WithoutSecret(asked.name());
}

std::string SubjectOf(const wire::RevokeKeyRequest& asked) {
  return WithoutSecret(asked.key_hex());
}

}  // namespace kiln

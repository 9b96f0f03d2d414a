#include "server/access/access_rule.h"

#include <sys/types.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

bool NamesSomebody(absl::string_view who) {
  uid_t user = 0;
  if (absl::ConsumePrefix(&who, "uid:"))
    return absl::SimpleAtoi(who, &user) && who == absl::StrCat(user);
  if (absl::ConsumePrefix(&who, "cert:")) return !who.empty();
  return who == "plain";
}

}  // namespace

absl::Status CheckAccessRule(const AccessRule& rule) {
  if (!NamesSomebody(rule.who)) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("[[access]] who: found \"", rule.who,
                                  "\", expected \"uid:N\", \"cert:NAME\" or "
                                  "\"plain\""));
  }
  if (rule.who == "plain" && rule.grant.role > Role::kSubmitter) {
    return MakeError(
        ErrorReason::kBadOption,
        "[[access]] who = \"plain\": whoever reaches the port would be more "
        "than a submitter");
  }
  return Annotate(CheckNamespaces(rule.grant.namespaces),
                  absl::StrCat("[[access]] who = \"", rule.who, "\""));
}

}  // namespace kiln

#ifndef KILN_SERVER_ACCESS_ACCESS_RULE_H_
#define KILN_SERVER_ACCESS_ACCESS_RULE_H_

#include <string>

#include "absl/status/status.h"
#include "server/access/caller.h"

namespace kiln {

// What the configuration grants to one caller:
//
//   [[access]]
//   who = "cert:trainer.example"
//   role = "submitter"
//   namespaces = ["team-a"]
struct AccessRule {
  // "uid:1000", "cert:NAME" or "plain". Tokens carry their own grants.
  std::string who;
  Grant grant;

  friend bool operator==(const AccessRule&, const AccessRule&) = default;
};

// INVALID_ARGUMENT BAD_OPTION, naming `who`, when the rule could never hold.
absl::Status CheckAccessRule(const AccessRule& rule);

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_ACCESS_RULE_H_

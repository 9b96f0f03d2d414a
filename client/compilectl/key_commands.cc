// The daemon's signing keys.

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/compilectl/admin_call.h"
#include "client/compilectl/commands.h"
#include "nlohmann/json.hpp"
#include "proto/base/status.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;
using Admin = wire::AdminService::Stub;

std::string DateText(int64_t unix_ms) {
  if (unix_ms == 0) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M", absl::FromUnixMillis(unix_ms),
                          absl::UTCTimeZone());
}

const char* StateOf(const wire::ListedKey& key) {
  if (key.key().revoked_unix_ms() != 0) return "revoked";
  if (key.signs()) return "signs";
  return key.foreign() ? "trusted, of another daemon" : "trusted";
}

std::string NamespaceText(const wire::DaemonKey& key) {
  return key.cache_namespace().empty() ? "*" : key.cache_namespace();
}

Json KeyJson(const wire::ListedKey& listed) {
  const wire::DaemonKey& key = listed.key();
  return {{"key_id", absl::BytesToHexString(key.key_id())},
          {"public_key", absl::BytesToHexString(key.public_key())},
          {"namespace", NamespaceText(key)},
          {"state", StateOf(listed)},
          {"made_unix_ms", key.made_unix_ms()},
          {"revoked_unix_ms", key.revoked_unix_ms()}};
}

std::string RevokedJson(const std::string& id,
                        const wire::RevokeKeyReply& reply) {
  Json made = Json::array();
  for (const wire::DaemonKey& key : reply.signs_now()) {
    made.push_back({{"key_id", absl::BytesToHexString(key.key_id())},
                    {"public_key", absl::BytesToHexString(key.public_key())},
                    {"namespace", NamespaceText(key)}});
  }
  return JsonText({{"revoked", id},
                   {"signs_now", std::move(made)},
                   {"needs_scrub", reply.needs_scrub()}});
}

}  // namespace

absl::StatusOr<std::string> KeysCommand(const AdminClient& daemon,
                                        OutputFormat format) {
  ASSIGN_OR_RETURN(const wire::ListKeysReply reply,
                   AdminCall<wire::ListKeysReply>(daemon, &Admin::ListKeys,
                                                  wire::ListKeysRequest()));
  if (format == OutputFormat::kJson) {
    Json keys = Json::array();
    for (const wire::ListedKey& key : reply.keys())
      keys.push_back(KeyJson(key));
    return JsonText({{"keys", std::move(keys)}});
  }
  Table table({"ID", "NAMESPACE", "STATE", "MADE (UTC)", "REVOKED (UTC)",
               "PUBLIC KEY"});
  for (const wire::ListedKey& listed : reply.keys()) {
    const wire::DaemonKey& key = listed.key();
    table.Add({absl::BytesToHexString(key.key_id()), NamespaceText(key),
               StateOf(listed), DateText(key.made_unix_ms()),
               DateText(key.revoked_unix_ms()),
               absl::BytesToHexString(key.public_key())});
  }
  return table.Text("no keys");
}

absl::StatusOr<std::string> RotateKeyCommand(const AdminClient& daemon,
                                             const std::string& cache_namespace,
                                             OutputFormat format) {
  wire::RotateKeyRequest request;
  request.set_cache_namespace(cache_namespace);
  ASSIGN_OR_RETURN(
      const wire::RotateKeyReply reply,
      AdminCall<wire::RotateKeyReply>(daemon, &Admin::RotateKey, request));
  const std::string key = absl::BytesToHexString(reply.public_key());
  if (format == OutputFormat::kJson) return JsonText({{"public_key", key}});
  return absl::StrCat(key, "\n");
}

absl::StatusOr<std::string> RevokeKeyCommand(const AdminClient& daemon,
                                             const std::string& key_hex,
                                             bool unknown,
                                             OutputFormat format) {
  wire::RevokeKeyRequest request;
  request.set_key_hex(key_hex);
  request.set_unknown(unknown);
  ASSIGN_OR_RETURN(
      const wire::RevokeKeyReply reply,
      AdminCall<wire::RevokeKeyReply>(daemon, &Admin::RevokeKey, request));
  const std::string id = absl::BytesToHexString(reply.key_id());
  if (format == OutputFormat::kJson) return RevokedJson(id, reply);
  std::string text = absl::StrCat("revoked ", id, "\n");
  for (const wire::DaemonKey& key : reply.signs_now()) {
    absl::StrAppend(&text, absl::BytesToHexString(key.key_id()),
                    " signs now in ",
                    key.cache_namespace().empty()
                        ? "all namespaces that have no key of their own"
                        : absl::StrCat("namespace ", key.cache_namespace()),
                    "; what ", id,
                    " signed is refused, and compiled anew when asked for\n");
  }
  if (reply.needs_scrub()) {
    absl::StrAppend(&text, id,
                    " also signed the lists of the cache: records that other "
                    "keys signed are "
                    "sound and not found any more; run `compilectl scrub`, "
                    "which lists them "
                    "again\n");
  }
  return text;
}

}  // namespace kiln

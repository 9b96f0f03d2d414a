// Who may call over TCP: tokens.

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/compilectl/admin_call.h"
#include "client/compilectl/commands.h"
#include "nlohmann/json.hpp"
#include "proto/base/status.h"
#include "proto/key/token_name.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;
using Admin = wire::AdminService::Stub;

std::string DateText(int64_t unix_ms) {
  return absl::FormatTime("%Y-%m-%d %H:%M", absl::FromUnixMillis(unix_ms),
                          absl::UTCTimeZone());
}

Json TokenJson(const wire::Token& token) {
  Json namespaces = Json::array();
  for (const std::string& name : token.namespaces()) namespaces.push_back(name);
  return {{"name", token.name()},
          {"role", token.role()},
          {"namespaces", std::move(namespaces)},
          {"made_unix_ms", token.made_unix_ms()},
          {"expires_unix_ms", token.expires_unix_ms()}};
}

}  // namespace

absl::StatusOr<std::string> AddTokenCommand(const AdminClient& daemon,
                                            const TokenOptions& options,
                                            OutputFormat format) {
  wire::AddTokenRequest request;
  request.set_name(options.name);
  request.set_role(options.role);
  for (const std::string& name : options.namespaces)
    request.add_namespaces(name);
  request.set_life_ms(absl::ToInt64Milliseconds(options.life));
  ASSIGN_OR_RETURN(
      const wire::AddTokenReply reply,
      AdminCall<wire::AddTokenReply>(daemon, &Admin::AddToken, request));
  if (format == OutputFormat::kJson)
    return JsonText({{"name", options.name}, {"token", reply.token()}});
  return absl::StrCat(reply.token(), "\n");
}

absl::StatusOr<std::string> RevokeTokenCommand(const AdminClient& daemon,
                                               const std::string& given,
                                               OutputFormat format) {
  // A token that was pasted whole is shown to nobody.
  const std::string name(TokenNameIn(given));
  wire::RevokeTokenRequest request;
  request.set_name(name);
  RETURN_IF_ERROR(
      AdminCall<wire::RevokeTokenReply>(daemon, &Admin::RevokeToken, request)
          .status());
  if (format == OutputFormat::kJson) return JsonText({{"revoked", name}});
  return absl::StrCat("revoked ", name, "\n");
}

absl::StatusOr<std::string> TokensCommand(const AdminClient& daemon,
                                          OutputFormat format) {
  ASSIGN_OR_RETURN(const wire::ListTokensReply reply,
                   AdminCall<wire::ListTokensReply>(daemon, &Admin::ListTokens,
                                                    wire::ListTokensRequest()));
  if (format == OutputFormat::kJson) {
    Json tokens = Json::array();
    for (const wire::Token& token : reply.tokens())
      tokens.push_back(TokenJson(token));
    return JsonText({{"tokens", std::move(tokens)}});
  }
  Table table({"NAME", "ROLE", "NAMESPACES", "MADE (UTC)", "EXPIRES (UTC)"});
  for (const wire::Token& token : reply.tokens()) {
    table.Add(
        {token.name(), token.role(), absl::StrJoin(token.namespaces(), ","),
         DateText(token.made_unix_ms()), DateText(token.expires_unix_ms())});
  }
  return table.Text("no tokens");
}

}  // namespace kiln

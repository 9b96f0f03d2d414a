#include "cache/far/redis_leases.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/far/redis_reply.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

using Kind = RespValue::Kind;

constexpr absl::string_view kExtend =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then "
    "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";
constexpr absl::string_view kGiveBack =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then "
    "return redis.call('DEL', KEYS[1]) else return 0 end";

std::string Milliseconds(absl::Duration time) {
  return absl::StrCat(absl::ToInt64Milliseconds(time));
}

}  // namespace

std::string RedisLeaseName(const LeaseName& name) {
  return absl::StrCat("kiln:2:{", name.key.Hex(), "}:lease:", name.job.Hex());
}

absl::StatusOr<bool> RedisLeases::Take(const LeaseName& name,
                                       absl::string_view token,
                                       absl::Duration life,
                                       SteadyTime deadline) {
  const std::string where = RedisLeaseName(name);
  // Commands may run twice: then the second SET finds what the first one set, and
  // only the GET tells whose it is.
  ASSIGN_OR_RETURN(
      const std::vector<RespValue> replies,
      redis_.Run(
          where,
          {EncodeCommand({"SET", where, token, "NX", "PX", Milliseconds(life)}),
           EncodeCommand({"GET", where})},
          deadline));
  RETURN_IF_ERROR(CheckReplies(replies));
  // Null: it ran out just now.
  if (!replies[1].is(Kind::kBulk) && !replies[1].is(Kind::kNull))
    return NoSense("GET");
  return replies[1].text == token;
}

absl::StatusOr<bool> RedisLeases::Extend(const LeaseName& name,
                                         absl::string_view token,
                                         absl::Duration life,
                                         SteadyTime deadline) {
  const std::string where = RedisLeaseName(name);
  ASSIGN_OR_RETURN(const std::vector<RespValue> replies,
                   redis_.Run(where,
                              {EncodeCommand({"EVAL", kExtend, "1", where,
                                              token, Milliseconds(life)})},
                              deadline));
  RETURN_IF_ERROR(CheckReplies(replies));
  if (!replies[0].is(Kind::kInteger)) return NoSense("EVAL");
  return replies[0].integer == 1;
}

absl::Status RedisLeases::GiveBack(const LeaseName& name,
                                   absl::string_view token,
                                   SteadyTime deadline) {
  const std::string where = RedisLeaseName(name);
  ASSIGN_OR_RETURN(
      const std::vector<RespValue> replies,
      redis_.Run(where, {EncodeCommand({"EVAL", kGiveBack, "1", where, token})},
                 deadline));
  return CheckReplies(replies);
}

}  // namespace kiln

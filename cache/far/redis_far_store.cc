#include "cache/far/redis_far_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/entry_id.h"
#include "cache/far/far_pause.h"
#include "cache/far/far_record.h"
#include "cache/far/redis_reply.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

using Kind = RespValue::Kind;

std::string Prefix(const Digest& key) {
  return absl::StrCat("kiln:2:{", key.Hex(), "}:");
}

RedisOptions ClusterOptions(const RedisFarStore::Options& options) {
  RedisOptions cluster;
  cluster.tls = options.tls;
  cluster.user = options.user;
  cluster.password = options.password;
  // One record, or all fields of a key's index.
  cluster.limits.max_bytes =
      options.max_record_bytes +
      kMaxEntriesPerKey *
          static_cast<int64_t>(kMaxHintBytes + kMaxRecordInIndex);
  return cluster;
}

constexpr size_t kSizeBytes = 4;

// A field of an index; `record` may be empty.
std::string FieldOf(absl::string_view hint, absl::string_view record) {
  std::string size;
  for (size_t i = 0; i < kSizeBytes; ++i)
    size += static_cast<char>(hint.size() >> (8 * i));
  return absl::StrCat(size, hint, record);
}

// The id with its hint and record; without both if it is no field of an index,
// which is a hint that ReadHint refuses.
FarHint ReadField(std::string id, absl::string_view field) {
  FarHint read = {.id = std::move(id)};
  if (field.size() < kSizeBytes) return read;
  size_t size = 0;
  for (size_t i = 0; i < kSizeBytes; ++i)
    size |= size_t{static_cast<unsigned char>(field[i])} << (8 * i);
  field.remove_prefix(kSizeBytes);
  if (size > field.size()) return read;
  read.hint = std::string(field.substr(0, size));
  read.record = std::string(field.substr(size));
  return read;
}

}  // namespace

std::string RedisIndexName(const Digest& key) {
  return absl::StrCat(Prefix(key), "index");
}

std::string RedisRecordName(const FarName& name) {
  if (!name.entry.has_value()) return absl::StrCat(Prefix(name.key), "unit");
  return absl::StrCat(Prefix(name.key), "entry:", name.entry->Hex());
}

RedisFarStore::RedisFarStore(const Options& options)
    : ttl_ms_(absl::StrCat(absl::ToInt64Milliseconds(options.ttl))),
      max_record_bytes_(options.max_record_bytes),
      redis_(options.seeds, ClusterOptions(options)),
      leases_(redis_) {}

absl::StatusOr<std::vector<FarHint>> RedisFarStore::Hints(const Digest& key,
                                                          SteadyTime deadline) {
  const std::string index = RedisIndexName(key);
  // A count above zero: so many fields at most, each once.
  ASSIGN_OR_RETURN(std::vector<RespValue> replies,
                   redis_.Run(index,
                              {EncodeCommand({"HRANDFIELD", index,
                                              absl::StrCat(kMaxEntriesPerKey),
                                              "WITHVALUES"})},
                              deadline));
  RETURN_IF_ERROR(CheckReplies(replies));
  std::vector<RespValue>& words = replies[0].items;
  if (!replies[0].is(Kind::kArray) || words.size() % 2 != 0 ||
      words.size() > 2 * size_t{kMaxEntriesPerKey}) {
    return NoSense("HRANDFIELD");
  }
  std::vector<FarHint> hints;
  for (size_t i = 0; i < words.size(); i += 2)
    hints.push_back(ReadField(std::move(words[i].text), words[i + 1].text));
  return hints;
}

absl::StatusOr<std::string> RedisFarStore::Get(const FarName& name,
                                               SteadyTime deadline) {
  const std::string record = RedisRecordName(name);
  // One byte more than may be, which tells what is too large; empty for what is
  // not there.
  ASSIGN_OR_RETURN(
      std::vector<RespValue> replies,
      redis_.Run(record,
                 {EncodeCommand({"GETRANGE", record, "0",
                                 absl::StrCat(max_record_bytes_)})},
                 deadline));
  RETURN_IF_ERROR(CheckReplies(replies));
  if (!replies[0].is(Kind::kBulk)) return NoSense("GETRANGE");
  std::string& bytes = replies[0].text;
  if (bytes.empty() && name.entry.has_value()) {
    // Of use to who has no hint: with it comes what the index has.
    const std::string index = RedisIndexName(name.key);
    ASSIGN_OR_RETURN(
        const std::vector<RespValue> fields,
        redis_.Run(index, {EncodeCommand({"HGET", index, name.entry->bytes()})},
                   deadline));
    RETURN_IF_ERROR(CheckReplies(fields));
    bytes = ReadField("", fields[0].text).record;
  }
  if (bytes.empty()) return absl::NotFoundError("not in the far store");
  if (static_cast<int64_t>(bytes.size()) > max_record_bytes_) {
    return MakeError(ErrorReason::kTooLarge,
                     absl::StrCat("far record of key ", name.key.ShortHex(),
                                  ": over ", max_record_bytes_, " bytes"));
  }
  return std::move(bytes);
}

absl::Status RedisFarStore::Put(const FarName& name, absl::string_view hint,
                                absl::string_view record, SteadyTime deadline) {
  const std::string where = RedisRecordName(name);
  ASSIGN_OR_RETURN(const bool in_index, IsFieldOfIndex(name, record, deadline));
  std::vector<std::string> commands;
  if (!in_index)
    commands.push_back(EncodeCommand({"SET", where, record, "PX", ttl_ms_}));
  if (name.entry.has_value()) {
    // After the record: whoever finds the hint finds what it stands for.
    const std::string index = RedisIndexName(name.key);
    commands.push_back(EncodeCommand({"HSET", index, name.entry->bytes(),
                                      FieldOf(hint, in_index ? record : "")}));
    commands.push_back(EncodeCommand({"PEXPIRE", index, ttl_ms_}));
    commands.push_back(EncodeCommand({"HLEN", index}));
  }
  ASSIGN_OR_RETURN(const std::vector<RespValue> replies,
                   redis_.Run(where, commands, deadline));
  RETURN_IF_ERROR(CheckReplies(replies));
  const int64_t hints = replies.back().integer;
  if (!name.entry.has_value() || hints <= kMaxEntriesPerKey)
    return absl::OkStatus();
  return Trim(name.key, hints - kMaxEntriesPerKey, deadline);
}

absl::StatusOr<bool> RedisFarStore::IsFieldOfIndex(const FarName& name,
                                                   absl::string_view record,
                                                   SteadyTime deadline) {
  if (!name.entry.has_value() || record.size() > kMaxRecordInIndex)
    return false;
  const std::string index = RedisIndexName(name.key);
  ASSIGN_OR_RETURN(
      const std::vector<RespValue> replies,
      redis_.Run(index,
                 {EncodeCommand({"HLEN", index}),
                  EncodeCommand({"HEXISTS", index, name.entry->bytes()})},
                 deadline));
  RETURN_IF_ERROR(CheckReplies(replies));
  // Two writers at once may both find none: then two fields have records.
  return replies[0].integer == replies[1].integer;
}

absl::Status RedisFarStore::Trim(const Digest& key, int64_t too_many,
                                 SteadyTime deadline) {
  const std::string index = RedisIndexName(key);
  ASSIGN_OR_RETURN(
      const std::vector<RespValue> picked,
      redis_.Run(index,
                 {EncodeCommand({"HRANDFIELD", index, absl::StrCat(too_many)})},
                 deadline));
  RETURN_IF_ERROR(CheckReplies(picked));
  std::vector<std::string> commands;
  for (const RespValue& id : picked[0].items) {
    commands.push_back(EncodeCommand({"HDEL", index, id.text}));
    if (const auto entry = Digest::FromBytes(id.text)) {
      commands.push_back(
          EncodeCommand({"DEL", RedisRecordName({key, *entry})}));
    }
  }
  if (commands.empty()) return absl::OkStatus();
  return redis_.Run(index, commands, deadline).status();
}

bool RedisFarStore::WasLeftAlone(const absl::Status& status) const {
  return IsPause(status);
}

}  // namespace kiln

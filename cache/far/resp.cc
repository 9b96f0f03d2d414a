#include "cache/far/resp.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The longest line: an error's text.
constexpr size_t kMaxLine = 4096;
constexpr absl::string_view kEnd = "\r\n";

absl::Status NoReply(absl::string_view what) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("redis: its reply is not RESP2: ", what));
}

absl::StatusOr<int64_t> NumberOf(absl::string_view line) {
  int64_t number = 0;
  // SimpleAtoi takes blanks around the digits, which the protocol does not.
  if (line.empty() || line.find(' ') != line.npos ||
      !absl::SimpleAtoi(line, &number)) {
    return NoReply("expected a number in a header");
  }
  return number;
}

}  // namespace

std::string EncodeCommand(absl::Span<const absl::string_view> words) {
  std::string out = absl::StrCat("*", words.size(), kEnd);
  for (const absl::string_view word : words)
    absl::StrAppend(&out, "$", word.size(), kEnd, word, kEnd);
  return out;
}

absl::StatusOr<std::optional<RespValue>> RespReader::Next() {
  while (true) {
    int64_t items = 0;
    ASSIGN_OR_RETURN(std::optional<RespValue> value, ReadOne(items));
    if (!value.has_value()) return std::nullopt;
    if (items > 0) {
      if (static_cast<int>(open_.size()) >= limits_.max_depth)
        return NoReply("arrays within arrays are too deep");
      open_.push_back({*std::move(value), items});
      continue;
    }
    // The value closes every array of which it is the last item.
    while (!open_.empty()) {
      Open& array = open_.back();
      array.array.items.push_back(*std::move(value));
      if (--array.missing > 0) break;
      value = std::move(array.array);
      open_.pop_back();
      if (open_.empty()) break;
    }
    if (!open_.empty()) continue;
    bytes_ = values_ = 0;
    return value;
  }
}

absl::StatusOr<std::optional<RespValue>> RespReader::ReadOne(int64_t& items) {
  ASSIGN_OR_RETURN(const std::optional<absl::string_view> line, ReadLine());
  if (!line.has_value()) return std::nullopt;
  if (line->empty()) return NoReply("an empty line");
  const char kind = line->front();
  const absl::string_view rest = line->substr(1);
  const size_t header = line->size() + kEnd.size();
  RespValue value;
  if (kind == '+' || kind == '-') {
    value.kind =
        kind == '+' ? RespValue::Kind::kSimple : RespValue::Kind::kError;
    value.text = std::string(rest);
  } else if (kind == ':' || kind == '$' || kind == '*') {
    ASSIGN_OR_RETURN(const int64_t number, NumberOf(rest));
    if (kind == '$' && number >= 0) return ReadBulk(number, header);
    if (kind == ':') {
      value.kind = RespValue::Kind::kInteger;
      value.integer = number;
    } else if (number < -1 || number > limits_.max_values) {
      return NoReply(absl::StrCat("a length of ", number));
    } else if (kind == '*' && number >= 0) {
      value.kind = RespValue::Kind::kArray;
      items = number;
    }
  } else {
    return NoReply("expected one of + - : $ * at the start of a line");
  }
  RETURN_IF_ERROR(Count(static_cast<int64_t>(header)));
  Consume(header);
  return value;
}

absl::StatusOr<std::optional<absl::string_view>> RespReader::ReadLine() {
  const absl::string_view rest = absl::string_view(buffer_).substr(at_);
  const size_t end = rest.substr(0, kMaxLine).find(kEnd);
  if (end != rest.npos) return rest.substr(0, end);
  if (rest.size() >= kMaxLine) return NoReply("a line without end");
  return std::nullopt;
}

absl::StatusOr<std::optional<RespValue>> RespReader::ReadBulk(int64_t length,
                                                              size_t header) {
  if (length > limits_.max_bytes || bytes_ + length > limits_.max_bytes) {
    return NoReply(absl::StrCat("a value of ", length, " bytes, at most ",
                                limits_.max_bytes, " in one reply are taken"));
  }
  const size_t size = static_cast<size_t>(length);
  const absl::string_view rest =
      absl::string_view(buffer_).substr(at_ + header);
  if (rest.size() < size + kEnd.size()) return std::nullopt;
  if (rest.substr(size, kEnd.size()) != kEnd)
    return NoReply("a value that is longer than its header says");
  RespValue value;
  value.kind = RespValue::Kind::kBulk;
  value.text = std::string(rest.substr(0, size));
  const size_t all = header + size + kEnd.size();
  RETURN_IF_ERROR(Count(static_cast<int64_t>(all)));
  Consume(all);
  return value;
}

absl::Status RespReader::Count(int64_t bytes) {
  bytes_ += bytes;
  ++values_;
  if (bytes_ <= limits_.max_bytes && values_ <= limits_.max_values)
    return absl::OkStatus();
  return NoReply(absl::StrCat("over ", limits_.max_bytes, " bytes or ",
                              limits_.max_values, " values"));
}

void RespReader::Consume(size_t bytes) {
  at_ += bytes;
  if (at_ == buffer_.size()) {
    buffer_.clear();
    at_ = 0;
  } else if (at_ >= buffer_.size() / 2) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
}

}  // namespace kiln

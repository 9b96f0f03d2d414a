#include "tests/support/raw_http2.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// RFC 9113: 6.9.2 and 4.2.
constexpr size_t kFirstWindow = 65535;
constexpr size_t kMostOfAFrame = 16384;

enum FrameType { kData = 0, kHeaders = 1, kSettings = 4 };
constexpr int kEndOfHeaders = 4;

void AppendBigEndian(uint32_t value, int bytes, std::string& out) {
  for (int i = bytes - 1; i >= 0; --i)
    out.push_back(static_cast<char>(value >> (8 * i)));
}

// RFC 9113, 4.1.
std::string Frame(FrameType type, int flags, uint32_t stream,
                  absl::string_view payload) {
  std::string frame;
  AppendBigEndian(static_cast<uint32_t>(payload.size()), 3, frame);
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  AppendBigEndian(stream, 4, frame);
  return absl::StrCat(frame, payload);
}

// A header that stands in no table: RFC 7541, 6.2.2.
std::string Header(absl::string_view name, absl::string_view value) {
  std::string field(1, '\0');
  for (const absl::string_view text : {name, value}) {
    field.push_back(static_cast<char>(text.size()));
    absl::StrAppend(&field, text);
  }
  return field;
}

}  // namespace

std::string Http2Preface() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; }

std::string UnfinishedCall(absl::string_view path, uint32_t announced) {
  std::string bytes = absl::StrCat(
      Http2Preface(), Frame(kSettings, 0, 0, ""),
      Frame(
          kHeaders, kEndOfHeaders, 1,
          absl::StrCat(Header(":method", "POST"), Header(":scheme", "http"),
                       Header(":path", path), Header(":authority", "localhost"),
                       Header("content-type", "application/grpc"),
                       Header("te", "trailers"))));
  std::string message(1, '\0');  // not compressed
  AppendBigEndian(announced, 4, message);
  message.resize(kFirstWindow, 'x');
  for (size_t at = 0; at < message.size(); at += kMostOfAFrame) {
    absl::StrAppend(
        &bytes, Frame(kData, 0, 1,
                      absl::string_view(message).substr(at, kMostOfAFrame)));
  }
  return bytes;
}

}  // namespace kiln

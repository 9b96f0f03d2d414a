#include "tests/support/raw_http2.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

// RFC 9113: 6.9.2 and 4.2.
constexpr size_t kFirstWindow = 65535;
constexpr size_t kMostOfAFrame = 16384;

// RFC 9113, 6.
enum FrameType {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
  kContinuation = 9,
};
constexpr int kEndOfStream = 1;  // of data and headers
constexpr int kAck = 1;          // of settings and pings
constexpr int kEndOfHeaders = 4;
constexpr uint32_t kInitialWindowSize = 4;  // of settings
constexpr uint32_t kCancel = 8;             // of resets
constexpr size_t kFrameHead = 9;

void AppendBigEndian(uint32_t value, int bytes, std::string& out) {
  for (int i = bytes - 1; i >= 0; --i)
    out.push_back(static_cast<char>(value >> (8 * i)));
}

uint32_t BigEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
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

std::string HeadersOf(absl::string_view path) {
  return absl::StrCat(Header(":method", "POST"), Header(":scheme", "http"),
                      Header(":path", path), Header(":authority", "localhost"),
                      Header("content-type", "application/grpc"),
                      Header("te", "trailers"));
}

// Before a message of gRPC's that is not compressed.
std::string HeadOfMessage(uint32_t size) {
  std::string head(1, '\0');
  AppendBigEndian(size, 4, head);
  return head;
}

}  // namespace

std::string Http2Preface() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; }

std::string UnfinishedCall(absl::string_view path, uint32_t announced) {
  std::string bytes =
      absl::StrCat(Http2Preface(), Frame(kSettings, 0, 0, ""),
                   Frame(kHeaders, kEndOfHeaders, 1, HeadersOf(path)));
  std::string message = HeadOfMessage(announced);
  message.resize(kFirstWindow, 'x');
  for (size_t at = 0; at < message.size(); at += kMostOfAFrame) {
    absl::StrAppend(
        &bytes, Frame(kData, 0, 1,
                      absl::string_view(message).substr(at, kMostOfAFrame)));
  }
  return bytes;
}

std::string Http2Start() {
  return absl::StrCat(Http2Preface(), Frame(kSettings, 0, 0, ""));
}

std::string ResetCall(absl::string_view path, uint32_t number) {
  const uint32_t stream = 2 * number + 1;
  std::string why;
  AppendBigEndian(kCancel, 4, why);
  return absl::StrCat(Frame(kHeaders, kEndOfHeaders, stream, HeadersOf(path)),
                      Frame(kReset, 0, stream, why));
}

std::string UnfinishedHeaders(absl::string_view path) {
  return absl::StrCat(Http2Preface(), Frame(kSettings, 0, 0, ""),
                      Frame(kHeaders, 0, 1, HeadersOf(path)));
}

std::string MoreHeaders(int fields) {
  std::string all;
  for (int i = 0; i < fields; ++i) absl::StrAppend(&all, Header("a", "b"));
  return Frame(kContinuation, 0, 1, all);
}

RawHttp2::RawHttp2(int fd)
    : fd_(fd), window_(kFirstWindow), first_window_(kFirstWindow) {
  std::string no_window;
  AppendBigEndian(kInitialWindowSize, 2, no_window);
  AppendBigEndian(0, 4, no_window);
  Send(absl::StrCat(Http2Preface(), Frame(kSettings, 0, 0, no_window)));
}

RawHttp2::~RawHttp2() { close(fd_); }

void RawHttp2::Begin(absl::string_view path, uint32_t announced) {
  const uint32_t stream = next_stream_;
  next_stream_ += 2;
  const std::string head = HeadOfMessage(announced);
  Send(absl::StrCat(Frame(kHeaders, kEndOfHeaders, stream, HeadersOf(path)),
                    Frame(kData, 0, stream, head)));
  const auto size = static_cast<int64_t>(head.size());
  calls_[stream] = {.left = announced - int64_t{1},
                    .window = first_window_ - size};
  window_ -= size;
}

void RawHttp2::Call(absl::string_view path, absl::string_view message) {
  const uint32_t stream = next_stream_;
  next_stream_ += 2;
  const std::string body = absl::StrCat(
      HeadOfMessage(static_cast<uint32_t>(message.size())), message);
  const auto size = static_cast<int64_t>(body.size());
  while (window_ < size) ReadUntilPong();
  Send(absl::StrCat(Frame(kHeaders, kEndOfHeaders, stream, HeadersOf(path)),
                    Frame(kData, kEndOfStream, stream, body)));
  calls_[stream] = {.window = first_window_ - size};
  window_ -= size;
}

void RawHttp2::SendAll() {
  do {
    ReadUntilPong();
  } while (SendWhatFits());
}

int64_t RawHttp2::bytes_of_open_calls() const {
  int64_t bytes = 0;
  for (const auto& [stream, call] : calls_) bytes += call.sent;
  return bytes;
}

bool RawHttp2::SendWhatFits() {
  bool sent = false;
  for (auto& [stream, call] : calls_) {
    while (std::min({window_, call.left, call.window}) > 0) {
      SendFrom(stream, call);
      sent = true;
    }
  }
  return sent;
}

void RawHttp2::SendFrom(uint32_t stream, OpenCall& call) {
  const int64_t size =
      std::min({window_, call.left, call.window, int64_t{kMostOfAFrame}});
  Send(Frame(kData, 0, stream, std::string(static_cast<size_t>(size), 'x')));
  window_ -= size;
  call.window -= size;
  call.left -= size;
  call.sent += size;
}

void RawHttp2::ReadUntilPong() {
  Send(Frame(kPing, 0, 0, "8 bytes."));
  pong_ = false;
  while (!pong_ && TakeFrame()) {
  }
}

void RawHttp2::AwaitEnded(int calls) {
  while (ended_ < calls && TakeFrame()) {
  }
}

bool RawHttp2::TakeFrame() {
  const std::string head = Read(kFrameHead);
  if (head.empty()) return false;
  const absl::string_view view = head;
  const std::string payload = Read(BigEndian(view.substr(0, 3)));
  Take(head[3], head[4], BigEndian(view.substr(5)), payload);
  return true;
}

void RawHttp2::Take(int type, int flags, uint32_t stream,
                    absl::string_view payload) {
  const auto call = calls_.find(stream);
  if (type == kPing && (flags & kAck) != 0) pong_ = true;
  if (type == kSettings && (flags & kAck) == 0) TakeSettings(payload);
  if (type == kWindowUpdate) {
    if (stream == 0) window_ += BigEndian(payload);
    if (call != calls_.end()) call->second.window += BigEndian(payload);
  }
  const bool ends = type == kReset || ((type == kData || type == kHeaders) &&
                                       (flags & kEndOfStream) != 0);
  if (ends && call != calls_.end()) {
    calls_.erase(call);
    ++ended_;
  }
}

void RawHttp2::TakeSettings(absl::string_view payload) {
  for (; payload.size() >= 6; payload.remove_prefix(6)) {
    if (BigEndian(payload.substr(0, 2)) != kInitialWindowSize) continue;
    const int64_t more = BigEndian(payload.substr(2, 4)) - first_window_;
    for (auto& [stream, call] : calls_) call.window += more;
    first_window_ += more;
  }
}

void RawHttp2::Send(absl::string_view bytes) {
  EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

std::string RawHttp2::Read(size_t bytes) {
  std::string read(bytes, '\0');
  if (recv(fd_, read.data(), bytes, MSG_WAITALL) ==
      static_cast<ssize_t>(bytes)) {
    return read;
  }
  ADD_FAILURE() << "the server closed the connection";
  return "";
}

}  // namespace kiln

#ifndef KILN_TESTS_SUPPORT_RAW_HTTP2_H_
#define KILN_TESTS_SUPPORT_RAW_HTTP2_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// What a client of HTTP/2 sends first.
std::string Http2Preface();

// The bytes of a connection on which a call of `path` ("/kiln.wire.Service/Method")
// has begun and never ends: its message is said to be `announced` bytes, and of those
// come as many as a client may send before it hears of the server, some 64 KiB.
std::string UnfinishedCall(absl::string_view path, uint32_t announced);

// What a client says first, and then a call of `path`, the `number`th from 0, that it
// resets at once.
std::string Http2Start();
std::string ResetCall(absl::string_view path, uint32_t number);

// The bytes of a connection on which a call of `path` has begun whose headers do not
// end, and a frame of `fields` more of them.
std::string UnfinishedHeaders(absl::string_view path);
std::string MoreHeaders(int fields);

// A client of HTTP/2 that takes no answers and acknowledges nothing, on a connected
// socket that it closes at its end. What goes wrong is a failure of the test.
class RawHttp2 {
 public:
  explicit RawHttp2(int fd);
  RawHttp2(const RawHttp2&) = delete;
  RawHttp2& operator=(const RawHttp2&) = delete;
  ~RawHttp2();

  // Begins a call of `path` that announces a message of `announced` bytes and sends
  // none of it.
  // The server may send headers, and no byte of a message.
  void Begin(absl::string_view path, uint32_t announced);

  // A call of `path` with all of its message, which its window takes.
  void Call(absl::string_view path, absl::string_view message);

  // Sends of all messages what the server has room for, but for their last byte,
  // until it makes no more of it.
  void SendAll();

  // Reads until the server has ended so many calls. Unlike SendAll it sends nothing:
  // gRPC closes a connection of many pings.
  void AwaitEnded(int calls);

  // After SendAll or AwaitEnded: calls that the server has not ended, and what was sent of their
  // messages.
  int open_calls() const { return static_cast<int>(calls_.size()); }
  int64_t bytes_of_open_calls() const;
  // And how many it has.
  int ended_calls() const { return ended_; }

 private:
  struct OpenCall {
    int64_t left = 0;  // to send
    int64_t sent = 0;
    int64_t window = 0;
  };
  // Whether there was any.
  bool SendWhatFits();
  void SendFrom(uint32_t stream, OpenCall& call);
  void ReadUntilPong();
  // One frame; false when there is none any more.
  bool TakeFrame();
  void Take(int type, int flags, uint32_t stream, absl::string_view payload);
  void TakeSettings(absl::string_view payload);
  void Send(absl::string_view bytes);
  std::string Read(size_t bytes);

  const int fd_;
  uint32_t next_stream_ = 1;
  int64_t window_;        // of the connection
  int64_t first_window_;  // of a new call
  std::map<uint32_t, OpenCall> calls_;
  int ended_ = 0;
  bool pong_ = false;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_RAW_HTTP2_H_

#include "proto/base/frame.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

constexpr uint32_t kMagic = 0x314e4c4b;
constexpr size_t kHeaderBytes = 16;
// Memory is taken as bytes come in, so that a lying header costs no more.
constexpr size_t kReadAhead = size_t{4} << 20;

absl::Status SystemError(absl::string_view call) {
  return absl::InternalError(
      absl::StrCat("frame: ", call, ": ", strerror(errno)));
}

absl::Status TooLarge(uint64_t bytes, int64_t max_bytes) {
  return MakeError(
      ErrorReason::kTooLarge,
      absl::StrCat("frame: ", bytes, " bytes, at most ", max_bytes));
}

// Waits until `fd` is ready for `events` (also when the peer hung up).
absl::Status WaitReady(int fd, short events, SteadyTime deadline) {
  while (true) {
    int timeout_ms = -1;
    if (deadline != kNever) {
      const absl::Duration left = TimeLeft(deadline);
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(
            "frame: the peer was silent until the deadline");
      }
      timeout_ms = static_cast<int>(std::min<int64_t>(
          absl::ToInt64Milliseconds(left) + 1, 1000 * 60 * 60));
    }
    pollfd entry = {fd, events, 0};
    const int ready = poll(&entry, 1, timeout_ms);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return SystemError("poll");
  }
}

// Reads up to `size` bytes. Fewer only when the peer closed.
absl::StatusOr<size_t> ReadFully(int fd, char* into, size_t size,
                                 SteadyTime deadline) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = recv(fd, into + done, size - done, MSG_DONTWAIT);
    if (n > 0) {
      done += n;
    } else if (n == 0 || errno == ECONNRESET) {
      return done;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      RETURN_IF_ERROR(WaitReady(fd, POLLIN, deadline));
    } else if (errno != EINTR) {
      return SystemError("recv");
    }
  }
  return done;
}

absl::Status CutShort(uint64_t found, uint64_t due) {
  return absl::DataLossError(absl::StrCat("frame: the peer closed after ",
                                          found, " of ", due, " bytes"));
}

void PutLittleEndian(uint64_t value, int bytes, char* into) {
  for (int i = 0; i < bytes; ++i) into[i] = static_cast<char>(value >> (8 * i));
}

uint64_t GetLittleEndian(const char* from, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(from[i]))
             << (8 * i);
  }
  return value;
}

}  // namespace

absl::StatusOr<std::string> ReadFrame(int fd, const FrameOptions& options) {
  char header[kHeaderBytes];
  ASSIGN_OR_RETURN(const size_t got,
                   ReadFully(fd, header, kHeaderBytes, options.deadline));
  if (got == 0) return absl::UnavailableError("frame: the peer closed");
  if (got < kHeaderBytes) return CutShort(got, kHeaderBytes);
  if (GetLittleEndian(header, 4) != kMagic) {
    return absl::DataLossError(
        absl::StrCat("frame: magic is ",
                     absl::Hex(GetLittleEndian(header, 4), absl::kZeroPad8),
                     ", must be ", absl::Hex(kMagic, absl::kZeroPad8)));
  }
  const uint64_t length = GetLittleEndian(header + 4, 4);
  if (length > static_cast<uint64_t>(options.max_bytes)) {
    return TooLarge(length, options.max_bytes);
  }
  std::string payload;
  while (payload.size() < length) {
    const size_t begin = payload.size();
    const size_t want = std::min<size_t>(length - begin, kReadAhead);
    payload.resize(begin + want);
    ASSIGN_OR_RETURN(const size_t piece,
                     ReadFully(fd, &payload[begin], want, options.deadline));
    if (piece < want) return CutShort(begin + piece, length);
  }
  if (Xxh3_64(payload) != GetLittleEndian(header + 8, 8)) {
    return absl::DataLossError(absl::StrCat(
        "frame: checksum of ", length, " bytes does not match its header"));
  }
  return payload;
}

absl::Status WriteFrame(int fd, absl::string_view payload,
                        const FrameOptions& options) {
  const int64_t limit = std::min<int64_t>(options.max_bytes, UINT32_MAX);
  if (payload.size() > static_cast<uint64_t>(limit)) {
    return TooLarge(payload.size(), limit);
  }
  char header[kHeaderBytes];
  PutLittleEndian(kMagic, 4, header);
  PutLittleEndian(payload.size(), 4, header + 4);
  PutLittleEndian(Xxh3_64(payload), 8, header + 8);
  size_t done = 0;
  const size_t total = kHeaderBytes + payload.size();
  while (done < total) {
    iovec pieces[2];
    int count = 0;
    if (done < kHeaderBytes) {
      pieces[count++] = {header + done, kHeaderBytes - done};
    }
    const size_t from = done < kHeaderBytes ? 0 : done - kHeaderBytes;
    pieces[count++] = {const_cast<char*>(payload.data()) + from,
                       payload.size() - from};
    msghdr message = {};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    const ssize_t n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      done += n;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      RETURN_IF_ERROR(WaitReady(fd, POLLOUT, options.deadline));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return absl::UnavailableError("frame: the peer closed");
    } else if (errno != EINTR) {
      return SystemError("sendmsg");
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln

#include "proto/base/packed_bytes.h"

#include <zstd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The largest window that a frame may ask for: that of Zstandard's level 19.
constexpr int kMaxWindowLog = 23;

struct FreeStream {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

absl::Status Refuse(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("packed bytes: ", what));
}

}  // namespace

std::string Pack(absl::string_view bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(packed.data(), packed.size(), bytes.data(),
                                    bytes.size(), /*compressionLevel=*/1);
  packed.resize(ZSTD_isError(size) ? 0 : size);
  return packed;
}

absl::StatusOr<std::string> Unpack(absl::string_view packed, size_t max_bytes) {
  const unsigned long long size =
      ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN)
    return Refuse("not a Zstandard frame of known size");
  const size_t most = std::min(max_bytes, packed.size() * kMostUnpackedTimes);
  if (size > most) {
    return Refuse(absl::StrCat("found ", packed.size(), " bytes that say ",
                               size, ", at most ", most, " are unpacked"));
  }
  const std::unique_ptr<ZSTD_DStream, FreeStream> stream(ZSTD_createDStream());
  if (stream == nullptr) return absl::InternalError("Zstandard has no stream");
  ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  std::string out;
  std::string chunk(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
  size_t left = 1;
  while (left != 0) {
    ZSTD_outBuffer step = {chunk.data(), chunk.size(), 0};
    const size_t before = in.pos;
    left = ZSTD_decompressStream(stream.get(), &step, &in);
    if (ZSTD_isError(left)) return Refuse(ZSTD_getErrorName(left));
    if (step.pos == 0 && in.pos == before) return Refuse("cut short");
    if (out.size() + step.pos > size) return Refuse("more than its size says");
    out.append(chunk.data(), step.pos);
  }
  if (out.size() != size || in.pos != in.size)
    return Refuse("other bytes than its size says");
  return out;
}

}  // namespace kiln

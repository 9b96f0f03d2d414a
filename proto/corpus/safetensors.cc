#include "proto/corpus/safetensors.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/base/status.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLengthBytes = 8;

absl::Status Unsound(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("safetensors: ", what));
}

bool IsExtent(const Json& row) {
  if (!row.is_object() || !row.contains("dtype") || !row.contains("shape") ||
      !row.contains("data_offsets")) {
    return false;
  }
  const Json& offsets = row["data_offsets"];
  if (!row["dtype"].is_string() || !row["shape"].is_array()) return false;
  for (const Json& size : row["shape"]) {
    if (!size.is_number_integer()) return false;
  }
  return offsets.is_array() && offsets.size() == 2 &&
         offsets[0].is_number_integer() && offsets[1].is_number_integer();
}

}  // namespace

absl::StatusOr<Safetensors> Safetensors::Parse(std::string bytes) {
  Safetensors out;
  out.bytes_ = std::move(bytes);
  const auto size = static_cast<int64_t>(out.bytes_.size());
  if (size < kLengthBytes) return Unsound("shorter than its length field");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, out.bytes_.data(), kLengthBytes);
  if (header_bytes > static_cast<uint64_t>(size - kLengthBytes)) {
    return Unsound("header longer than the file");
  }
  const char* begin = out.bytes_.data() + kLengthBytes;
  const Json header = Json::parse(begin, begin + header_bytes, nullptr,
                                  /*allow_exceptions=*/false);
  if (!header.is_object()) return Unsound("header is not a JSON object");
  const int64_t data = kLengthBytes + static_cast<int64_t>(header_bytes);
  for (const auto& [name, row] : header.items()) {
    if (name == "__metadata__") continue;
    if (!IsExtent(row)) return Unsound(absl::StrCat("bad entry ", name));
    const auto from = row["data_offsets"][0].get<int64_t>();
    const auto to = row["data_offsets"][1].get<int64_t>();
    if (from < 0 || to < from || to > size - data) {
      return Unsound(absl::StrCat(name, " lies outside the file"));
    }
    out.extents_[name] = {row["dtype"].get<std::string>(),
                          row["shape"].get<std::vector<int64_t>>(), data + from,
                          data + to};
  }
  return out;
}

absl::StatusOr<Safetensors::Tensor> Safetensors::Find(
    const std::string& name) const {
  const auto found = extents_.find(name);
  if (found == extents_.end()) {
    return absl::NotFoundError(absl::StrCat("safetensors: no tensor ", name));
  }
  const Extent& extent = found->second;
  return Tensor{extent.dtype, extent.sizes,
                absl::string_view(bytes_).substr(extent.begin,
                                                 extent.end - extent.begin)};
}

}  // namespace kiln

#include "proto/base/parse_bounded.h"

#include <optional>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/base/count_fields.h"

namespace kiln {

bool ParseBounded(absl::string_view bytes, google::protobuf::Message& into) {
  const int size = static_cast<int>(bytes.size());
  google::protobuf::io::ArrayInputStream stream(bytes.data(), size);
  const std::optional<int64_t> fields =
      CountFields(stream, *into.GetDescriptor(), kMaxFieldsParsed);
  return fields.has_value() && *fields <= kMaxFieldsParsed &&
         into.ParseFromArray(bytes.data(), size);
}

}  // namespace kiln

#ifndef KILN_PROTO_BASE_COUNT_FIELDS_H_
#define KILN_PROTO_BASE_COUNT_FIELDS_H_

#include <cstdint>
#include <optional>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace kiln {

// How many fields the bytes of a message of `type` have, those of the messages in
// it included, counted without making any of them. An empty message costs its
// sender two bytes and us two hundred: what is to be decoded is counted first.
// Numbers that stand packed count as one field.
//
// Stops beyond `limit`, and gives a number above it then. Empty when the bytes are
// no message, or one nested deeper than Protobuf takes.
std::optional<int64_t> CountFields(
    google::protobuf::io::ZeroCopyInputStream& bytes,
    const google::protobuf::Descriptor& type, int64_t limit);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_COUNT_FIELDS_H_

#include "proto/base/count_fields.h"

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace kiln {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// As Protobuf's own parser has it.
constexpr int kMaxNesting = 100;

class Counter {
 public:
  Counter(CodedInputStream& in, int64_t limit) : in_(in), limit_(limit) {}

  int64_t count() const { return count_; }
  bool over() const { return count_ > limit_; }

  // False: no message. Ends early when the limit is passed.
  bool Count(const Descriptor& type, int nesting) {
    if (nesting > kMaxNesting) return false;
    while (!over()) {
      const uint32_t tag = in_.ReadTag();
      if (tag == 0) return in_.ConsumedEntireMessage();
      ++count_;
      const FieldDescriptor* field =
          type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      const bool goes_in = field != nullptr &&
                           field->type() == FieldDescriptor::TYPE_MESSAGE &&
                           WireFormatLite::GetTagWireType(tag) ==
                               WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      if (!goes_in) {
        if (!WireFormatLite::SkipField(&in_, tag)) return false;
        continue;
      }
      int length = 0;
      if (!in_.ReadVarintSizeAsInt(&length)) return false;
      const CodedInputStream::Limit outer = in_.PushLimit(length);
      if (in_.BytesUntilLimit() != length) return false;
      if (!Count(*field->message_type(), nesting + 1)) return false;
      in_.PopLimit(outer);
    }
    return true;
  }

 private:
  CodedInputStream& in_;
  const int64_t limit_;
  int64_t count_ = 0;
};

}  // namespace

std::optional<int64_t> CountFields(
    google::protobuf::io::ZeroCopyInputStream& bytes, const Descriptor& type,
    int64_t limit) {
  CodedInputStream in(&bytes);
  Counter counter(in, limit);
  if (!counter.Count(type, 0)) return std::nullopt;
  return counter.count();
}

}  // namespace kiln

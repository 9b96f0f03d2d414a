#ifndef KILN_PROTO_BASE_OBJECT_IMAGE_H_
#define KILN_PROTO_BASE_OBJECT_IMAGE_H_

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// DATA_LOSS ARTIFACT_CORRUPT "object code: ", what was found.
absl::Status RefusedObject(absl::string_view found);

// A shared object as it will lie in memory. Addresses are those of its program
// headers, before the loader adds where it put the object. Views the file's bytes,
// which outlive it. Immutable; thread-safe.
class ObjectImage {
 public:
  // The header and the segments of an object for x86-64. Segments ascend and share
  // no page, so that an address is one byte of the file; none is cut off, or may
  // be both written and executed; all that the loader looks at lies in one of
  // those that it maps.
  static absl::StatusOr<ObjectImage> Read(absl::string_view bytes);

  // Whether the bytes are the file's and stay so: in a segment that is read and
  // never written.
  bool IsConstant(uint64_t address, uint64_t size) const;
  // Whether the bytes may be written: in one segment of the object's data.
  bool IsVariable(uint64_t address, uint64_t size) const;

  // What the file has for an address; nothing where it has less than all of it.
  template <typename T>
  std::optional<T> At(uint64_t address) const {
    const std::optional<uint64_t> offset = OffsetOf(address, sizeof(T));
    return offset.has_value() ? AtOffset<T>(*offset) : std::nullopt;
  }

  // Empty when none ends within `most` bytes.
  absl::string_view NameAt(uint64_t address, uint64_t most) const;

  // The dynamic section, in the object's data.
  const Elf64_Phdr& dynamic() const { return dynamic_; }

 private:
  explicit ObjectImage(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  std::optional<T> AtOffset(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) {
      return std::nullopt;
    }
    T record;
    std::memcpy(&record, bytes_.data() + offset, sizeof(T));
    return record;
  }
  std::optional<uint64_t> OffsetOf(uint64_t address, uint64_t size) const;

  absl::Status ReadSegments(const Elf64_Ehdr& header);
  absl::Status AddLoaded(const Elf64_Phdr& segment);
  // Of a segment that is a part of those that are loaded.
  absl::Status CheckPlace(const Elf64_Phdr& part) const;

  absl::string_view bytes_;
  std::vector<Elf64_Phdr> loaded_;
  Elf64_Phdr dynamic_ = {};
};

}  // namespace kiln

#endif  // KILN_PROTO_BASE_OBJECT_IMAGE_H_

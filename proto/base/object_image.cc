#include "proto/base/object_image.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// More than any linker writes.
constexpr int kMaxSegments = 64;
constexpr uint64_t kPage = 4096;
// An object is some kilobytes; its memory is no reason to reserve a machine's.
constexpr uint64_t kMaxAddress = uint64_t{1} << 32;

bool Contains(uint64_t begin, uint64_t length, uint64_t address,
              uint64_t size) {
  return address >= begin && size <= length && address - begin <= length - size;
}

uint64_t PageEnd(const Elf64_Phdr& segment) {
  return (segment.p_vaddr + segment.p_memsz + kPage - 1) / kPage * kPage;
}

absl::Status CheckHeader(const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64 ||
      header.e_type != ET_DYN) {
    return RefusedObject("no shared object for x86-64");
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_phnum > kMaxSegments) {
    return RefusedObject("program headers of another size or number");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RefusedObject(absl::string_view found) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("object code: ", found));
}

absl::StatusOr<ObjectImage> ObjectImage::Read(absl::string_view bytes) {
  ObjectImage image(bytes);
  const auto header = image.AtOffset<Elf64_Ehdr>(0);
  if (!header.has_value()) {
    return RefusedObject(
        absl::StrCat(bytes.size(), " bytes that are not an ELF file"));
  }
  RETURN_IF_ERROR(CheckHeader(*header));
  RETURN_IF_ERROR(image.ReadSegments(*header));
  return image;
}

bool ObjectImage::IsConstant(uint64_t address, uint64_t size) const {
  return std::any_of(
      loaded_.begin(), loaded_.end(), [&](const Elf64_Phdr& segment) {
        return (segment.p_flags & (PF_R | PF_W)) == PF_R &&
               Contains(segment.p_vaddr, segment.p_filesz, address, size);
      });
}

bool ObjectImage::IsVariable(uint64_t address, uint64_t size) const {
  return std::any_of(
      loaded_.begin(), loaded_.end(), [&](const Elf64_Phdr& segment) {
        return (segment.p_flags & PF_W) != 0 &&
               Contains(segment.p_vaddr, segment.p_memsz, address, size);
      });
}

absl::string_view ObjectImage::NameAt(uint64_t address, uint64_t most) const {
  const std::optional<uint64_t> offset = OffsetOf(address, 1);
  if (!offset.has_value()) return "";
  const absl::string_view rest = bytes_.substr(*offset, most);
  const size_t end = rest.find('\0');
  return end == absl::string_view::npos ? "" : rest.substr(0, end);
}

std::optional<uint64_t> ObjectImage::OffsetOf(uint64_t address,
                                              uint64_t size) const {
  for (const Elf64_Phdr& segment : loaded_) {
    if (Contains(segment.p_vaddr, segment.p_filesz, address, size)) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return std::nullopt;
}

absl::Status ObjectImage::ReadSegments(const Elf64_Ehdr& header) {
  std::vector<Elf64_Phdr> parts;
  bool plain_stack = false;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment =
        AtOffset<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment.has_value()) {
      return RefusedObject("program headers are cut off");
    }
    switch (segment->p_type) {
      case PT_LOAD:
        RETURN_IF_ERROR(AddLoaded(*segment));
        break;
      case PT_DYNAMIC:
        if (dynamic_.p_type == PT_DYNAMIC) {
          return RefusedObject("two dynamic sections");
        }
        dynamic_ = *segment;
        break;
      case PT_GNU_STACK:
        plain_stack = (segment->p_flags & PF_X) == 0;
        break;
      case PT_NULL:
        break;
      case PT_NOTE:
      case PT_PHDR:
      case PT_GNU_EH_FRAME:
      case PT_GNU_PROPERTY:
      case PT_GNU_RELRO:
        parts.push_back(*segment);
        break;
      default:
        return RefusedObject(
            absl::StrCat("a segment of type ", segment->p_type));
    }
  }
  if (!plain_stack) return RefusedObject("an executable stack");
  if (dynamic_.p_type != PT_DYNAMIC) {
    return RefusedObject("no dynamic section");
  }
  // The loader writes addresses into it.
  if (!IsVariable(dynamic_.p_vaddr, dynamic_.p_memsz)) {
    return RefusedObject("a dynamic section outside its data");
  }
  for (const Elf64_Phdr& part : parts) RETURN_IF_ERROR(CheckPlace(part));
  return absl::OkStatus();
}

absl::Status ObjectImage::AddLoaded(const Elf64_Phdr& segment) {
  if (segment.p_filesz > segment.p_memsz || segment.p_offset > bytes_.size() ||
      bytes_.size() - segment.p_offset < segment.p_filesz ||
      segment.p_vaddr > kMaxAddress || segment.p_memsz > kMaxAddress) {
    return RefusedObject("a segment that is cut off or out of range");
  }
  if ((segment.p_flags & PF_W) != 0 && (segment.p_flags & PF_X) != 0) {
    return RefusedObject("a segment that may be written and executed");
  }
  if (!loaded_.empty() &&
      segment.p_vaddr / kPage * kPage < PageEnd(loaded_.back())) {
    return RefusedObject("segments that overlap");
  }
  loaded_.push_back(segment);
  return absl::OkStatus();
}

absl::Status ObjectImage::CheckPlace(const Elf64_Phdr& part) const {
  // Its pages are made read-only, whosever they are.
  const bool protects = part.p_type == PT_GNU_RELRO;
  for (const Elf64_Phdr& segment : loaded_) {
    const uint64_t length =
        protects ? PageEnd(segment) - segment.p_vaddr : segment.p_memsz;
    if ((!protects || (segment.p_flags & PF_W) != 0) &&
        Contains(segment.p_vaddr, length, part.p_vaddr, part.p_memsz)) {
      return absl::OkStatus();
    }
  }
  return RefusedObject(absl::StrCat("a segment of type 0x",
                                    absl::Hex(part.p_type),
                                    " that is not inside a loaded segment"));
}

}  // namespace kiln

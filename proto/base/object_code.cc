#include "proto/base/object_code.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// More than any linker writes.
constexpr int kMaxSegments = 64;
constexpr uint64_t kPage = 4096;
// An object is some kilobytes; its memory is no reason to reserve a machine's.
constexpr uint64_t kMaxAddress = uint64_t{1} << 32;

constexpr absl::string_view kMemory[] = {"memcpy", "memmove", "memset",
                                         "memcmp"};
// Of <math.h>, for double; with an "f" at the end for float.
constexpr absl::string_view kMath[] = {
    "acos",  "acosh",     "asin",      "asinh",   "atan",      "atan2",
    "atanh", "cbrt",      "ceil",      "cos",     "cosh",      "erf",
    "erfc",  "exp",       "exp2",      "expm1",   "fabs",      "floor",
    "fma",   "fmax",      "fmin",      "fmod",    "frexp",     "hypot",
    "ldexp", "lgamma",    "llrint",    "llround", "log",       "log10",
    "log1p", "log2",      "logb",      "lrint",   "lround",    "modf",
    "nan",   "nearbyint", "nextafter", "pow",     "remainder", "rint",
    "round", "roundeven", "sin",       "sincos",  "sinh",      "sqrt",
    "tan",   "tanh",      "tgamma",    "trunc"};

absl::Status Refused(absl::string_view found) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("object code: ", found));
}

bool MayBeTaken(absl::string_view name) {
  if (std::find(std::begin(kMemory), std::end(kMemory), name) !=
      std::end(kMemory)) {
    return true;
  }
  const auto is_math = [](absl::string_view n) {
    return std::find(std::begin(kMath), std::end(kMath), n) != std::end(kMath);
  };
  return is_math(name) || is_math(absl::StripSuffix(name, "f"));
}

// Entries of the dynamic section that a unit of kernels has.
bool MayBeDynamic(int64_t tag, uint64_t value) {
  switch (tag) {
    case DT_HASH:
    case DT_GNU_HASH:
    case DT_STRTAB:
    case DT_STRSZ:
    case DT_SYMTAB:
    case DT_SYMENT:
    case DT_PLTGOT:
    case DT_PLTREL:
    case DT_PLTRELSZ:
    case DT_JMPREL:
    case DT_RELA:
    case DT_RELASZ:
    case DT_RELAENT:
    case DT_RELACOUNT:
    case DT_SONAME:
    case DT_BIND_NOW:
      return true;
    case DT_FLAGS:
      return (value & ~uint64_t{DF_BIND_NOW | DF_SYMBOLIC}) == 0;
    case DT_FLAGS_1:
      return (value & ~uint64_t{DF_1_NOW}) == 0;
    default:
      return false;
  }
}

// The image as it will lie in memory, as far as the file fills it.
class Image {
 public:
  explicit Image(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  std::optional<T> AtOffset(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) {
      return std::nullopt;
    }
    T record;
    std::memcpy(&record, bytes_.data() + offset, sizeof(T));
    return record;
  }

  template <typename T>
  std::optional<T> AtAddress(uint64_t address) const {
    const std::optional<uint64_t> offset = OffsetOf(address, sizeof(T));
    return offset.has_value() ? AtOffset<T>(*offset) : std::nullopt;
  }

  // Empty when none ends within `most` bytes.
  absl::string_view NameAt(uint64_t address, uint64_t most) const {
    const std::optional<uint64_t> offset = OffsetOf(address, 1);
    if (!offset.has_value()) return "";
    const absl::string_view rest = bytes_.substr(*offset, most);
    const size_t end = rest.find('\0');
    return end == absl::string_view::npos ? "" : rest.substr(0, end);
  }

  void AddLoaded(const Elf64_Phdr& segment) { loaded_.push_back(segment); }
  const std::vector<Elf64_Phdr>& loaded() const { return loaded_; }
  uint64_t size() const { return bytes_.size(); }

 private:
  std::optional<uint64_t> OffsetOf(uint64_t address, uint64_t size) const {
    for (const Elf64_Phdr& segment : loaded_) {
      if (address >= segment.p_vaddr && size <= segment.p_filesz &&
          address - segment.p_vaddr <= segment.p_filesz - size) {
        return segment.p_offset + (address - segment.p_vaddr);
      }
    }
    return std::nullopt;
  }

  const absl::string_view bytes_;
  std::vector<Elf64_Phdr> loaded_;
};

absl::Status CheckHeader(const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64 ||
      header.e_type != ET_DYN) {
    return Refused("no shared object for x86-64");
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_phnum > kMaxSegments) {
    return Refused("program headers of another size or number");
  }
  return absl::OkStatus();
}

// Segments ascend and share no page, so that an address is one byte of the file.
absl::Status AddLoaded(const Elf64_Phdr& segment, Image& image) {
  if (segment.p_filesz > segment.p_memsz || segment.p_offset > image.size() ||
      image.size() - segment.p_offset < segment.p_filesz ||
      segment.p_vaddr > kMaxAddress || segment.p_memsz > kMaxAddress) {
    return Refused("a segment that is cut off or out of range");
  }
  if ((segment.p_flags & PF_W) != 0 && (segment.p_flags & PF_X) != 0) {
    return Refused("a segment that may be written and executed");
  }
  if (!image.loaded().empty()) {
    const Elf64_Phdr& before = image.loaded().back();
    const uint64_t end =
        (before.p_vaddr + before.p_memsz + kPage - 1) / kPage * kPage;
    if (segment.p_vaddr / kPage * kPage < end) {
      return Refused("segments that overlap");
    }
  }
  image.AddLoaded(segment);
  return absl::OkStatus();
}

// Gives the header of the dynamic section.
absl::StatusOr<Elf64_Phdr> ReadSegments(const Elf64_Ehdr& header,
                                        Image& image) {
  std::optional<Elf64_Phdr> dynamic;
  bool plain_stack = false;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment =
        image.AtOffset<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment.has_value()) return Refused("program headers are cut off");
    switch (segment->p_type) {
      case PT_LOAD:
        RETURN_IF_ERROR(AddLoaded(*segment, image));
        break;
      case PT_DYNAMIC:
        if (dynamic.has_value()) return Refused("two dynamic sections");
        dynamic = *segment;
        break;
      case PT_GNU_STACK:
        plain_stack = (segment->p_flags & PF_X) == 0;
        break;
      case PT_NULL:
      case PT_NOTE:
      case PT_PHDR:
      case PT_GNU_EH_FRAME:
      case PT_GNU_PROPERTY:
      case PT_GNU_RELRO:
        break;
      default:
        return Refused(absl::StrCat("a segment of type ", segment->p_type));
    }
  }
  if (!plain_stack) return Refused("an executable stack");
  if (!dynamic.has_value()) return Refused("no dynamic section");
  return *dynamic;
}

using Dynamic = std::map<int64_t, uint64_t>;

absl::StatusOr<Dynamic> ReadDynamic(const Elf64_Phdr& segment,
                                    const Image& image) {
  Dynamic entries;
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_memsz;
       at += sizeof(Elf64_Dyn)) {
    const auto entry = image.AtAddress<Elf64_Dyn>(segment.p_vaddr + at);
    if (!entry.has_value()) return Refused("its dynamic section is cut off");
    if (entry->d_tag == DT_NULL) return entries;
    if (!MayBeDynamic(entry->d_tag, entry->d_un.d_val)) {
      return Refused(
          absl::StrCat("entry ", absl::StrCat("0x", absl::Hex(entry->d_tag)),
                       " of its dynamic section, which no kernel needs"));
    }
    if (!entries.emplace(entry->d_tag, entry->d_un.d_val).second) {
      return Refused("an entry of its dynamic section twice");
    }
  }
  return Refused("a dynamic section without an end");
}

absl::Status CheckRelocation(const Elf64_Rela& relocation,
                             const Dynamic& dynamic, const Image& image) {
  switch (ELF64_R_TYPE(relocation.r_info)) {
    case R_X86_64_NONE:
    case R_X86_64_RELATIVE:
      return absl::OkStatus();
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
      break;
    default:
      return Refused(absl::StrCat("a relocation of type ",
                                  ELF64_R_TYPE(relocation.r_info)));
  }
  const uint64_t number = ELF64_R_SYM(relocation.r_info);
  if (number == 0) return absl::OkStatus();
  const auto table = dynamic.find(DT_SYMTAB);
  const auto names = dynamic.find(DT_STRTAB);
  const auto names_size = dynamic.find(DT_STRSZ);
  if (table == dynamic.end() || names == dynamic.end() ||
      names_size == dynamic.end()) {
    return Refused("relocations without symbols");
  }
  const auto symbol =
      image.AtAddress<Elf64_Sym>(table->second + number * sizeof(Elf64_Sym));
  if (!symbol.has_value() || symbol->st_name >= names_size->second) {
    return Refused("a relocation by a symbol that is not there");
  }
  if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC) {
    return Refused("a symbol that code is run for");
  }
  if (symbol->st_shndx != SHN_UNDEF) return absl::OkStatus();
  const absl::string_view name = image.NameAt(
      names->second + symbol->st_name, names_size->second - symbol->st_name);
  if (MayBeTaken(name)) return absl::OkStatus();
  return Refused(absl::StrCat("it asks its process for ", name));
}

absl::Status CheckRelocations(int64_t table, int64_t size,
                              const Dynamic& dynamic, const Image& image) {
  const auto at = dynamic.find(table);
  const auto bytes = dynamic.find(size);
  if (at == dynamic.end() && bytes == dynamic.end()) return absl::OkStatus();
  if (at == dynamic.end() || bytes == dynamic.end() ||
      bytes->second > image.size() || bytes->second % sizeof(Elf64_Rela) != 0) {
    return Refused("a table of relocations of another size");
  }
  for (uint64_t i = 0; i < bytes->second; i += sizeof(Elf64_Rela)) {
    const auto relocation = image.AtAddress<Elf64_Rela>(at->second + i);
    if (!relocation.has_value()) return Refused("relocations are cut off");
    RETURN_IF_ERROR(CheckRelocation(*relocation, dynamic, image));
  }
  return absl::OkStatus();
}

bool IsOr(const Dynamic& dynamic, int64_t tag, uint64_t due) {
  const auto found = dynamic.find(tag);
  return found == dynamic.end() || found->second == due;
}

}  // namespace

absl::Status CheckSharedObject(absl::string_view bytes) {
  Image image(bytes);
  const auto header = image.AtOffset<Elf64_Ehdr>(0);
  if (!header.has_value()) {
    return Refused(absl::StrCat(bytes.size(), " bytes are no ELF file"));
  }
  RETURN_IF_ERROR(CheckHeader(*header));
  ASSIGN_OR_RETURN(const Elf64_Phdr segment, ReadSegments(*header, image));
  ASSIGN_OR_RETURN(const Dynamic dynamic, ReadDynamic(segment, image));
  if (!IsOr(dynamic, DT_PLTREL, DT_RELA) ||
      !IsOr(dynamic, DT_RELAENT, sizeof(Elf64_Rela)) ||
      !IsOr(dynamic, DT_SYMENT, sizeof(Elf64_Sym))) {
    return Refused("records of another size");
  }
  RETURN_IF_ERROR(CheckRelocations(DT_RELA, DT_RELASZ, dynamic, image));
  return CheckRelocations(DT_JMPREL, DT_PLTRELSZ, dynamic, image);
}

}  // namespace kiln

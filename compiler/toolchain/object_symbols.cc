#include "compiler/toolchain/object_symbols.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The record at `offset`, if it lies within the file.
template <typename T>
std::optional<T> RecordAt(absl::string_view image, uint64_t offset) {
  if (offset > image.size() || image.size() - offset < sizeof(T)) {
    return std::nullopt;
  }
  T record;
  std::memcpy(&record, image.data() + offset, sizeof(T));
  return record;
}

// The name at `offset`; empty when it does not end within the file.
absl::string_view NameAt(absl::string_view image, uint64_t offset) {
  if (offset >= image.size()) return "";
  const absl::string_view rest = image.substr(offset);
  const size_t end = rest.find('\0');
  return end == absl::string_view::npos ? "" : rest.substr(0, end);
}

bool IsFoundByOthers(const Elf64_Sym& symbol) {
  const unsigned char binding = ELF64_ST_BIND(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF &&
         (binding == STB_GLOBAL || binding == STB_WEAK);
}

absl::Status Refused(absl::string_view found) {
  return MakeError(ErrorReason::kToolchainRejected,
                   absl::StrCat("object code: ", found));
}

// Adds the names that a symbol table defines.
absl::Status AddNames(absl::string_view image, const Elf64_Ehdr& header,
                      const Elf64_Shdr& table,
                      std::set<absl::string_view>& names) {
  const auto strings = RecordAt<Elf64_Shdr>(
      image,
      header.e_shoff + uint64_t{table.sh_link} * uint64_t{header.e_shentsize});
  if (!strings.has_value()) return Refused("its symbols have no names");
  const uint64_t count = table.sh_size / sizeof(Elf64_Sym);
  for (uint64_t i = 0; i < count; ++i) {
    const auto symbol =
        RecordAt<Elf64_Sym>(image, table.sh_offset + i * sizeof(Elf64_Sym));
    if (!symbol.has_value()) return Refused("its symbol table is cut off");
    if (IsFoundByOthers(*symbol)) {
      names.insert(NameAt(image, strings->sh_offset + symbol->st_name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckObjectSymbols(absl::string_view image,
                                absl::Span<const std::string> symbols) {
  const auto header = RecordAt<Elf64_Ehdr>(image, 0);
  if (!header.has_value() ||
      std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return Refused(absl::StrCat("found ", image.size(),
                                " bytes that are no ELF file of 64 bits"));
  }
  std::set<absl::string_view> names;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section =
        RecordAt<Elf64_Shdr>(image, header->e_shoff + i * header->e_shentsize);
    if (!section.has_value()) return Refused("its section table is cut off");
    if (section->sh_type != SHT_DYNSYM && section->sh_type != SHT_SYMTAB) {
      continue;
    }
    RETURN_IF_ERROR(AddNames(image, *header, *section, names));
  }
  for (const std::string& symbol : symbols) {
    if (names.count(symbol) == 0) {
      return Refused(absl::StrCat("expected a definition of ", symbol));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln

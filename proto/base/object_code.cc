#include "proto/base/object_code.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/object_image.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

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

using Dynamic = std::map<int64_t, uint64_t>;

absl::StatusOr<Dynamic> ReadDynamic(const ObjectImage& image) {
  const Elf64_Phdr& segment = image.dynamic();
  Dynamic entries;
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_memsz;
       at += sizeof(Elf64_Dyn)) {
    const auto entry = image.At<Elf64_Dyn>(segment.p_vaddr + at);
    if (!entry.has_value()) {
      return RefusedObject("its dynamic section is cut off");
    }
    if (entry->d_tag == DT_NULL) return entries;
    if (!MayBeDynamic(entry->d_tag, entry->d_un.d_val)) {
      return RefusedObject(
          absl::StrCat("entry 0x", absl::Hex(entry->d_tag),
                       " of its dynamic section, which no kernel needs"));
    }
    if (!entries.emplace(entry->d_tag, entry->d_un.d_val).second) {
      return RefusedObject("an entry of its dynamic section twice");
    }
  }
  return RefusedObject("a dynamic section without an end");
}

bool IsOr(const Dynamic& dynamic, int64_t tag, uint64_t due) {
  const auto found = dynamic.find(tag);
  return found == dynamic.end() || found->second == due;
}

// Tables come with their sizes, in records of ours: the loader takes the one for
// granted where it finds the other.
absl::Status CheckTables(const Dynamic& dynamic, const ObjectImage& image) {
  if (!IsOr(dynamic, DT_PLTREL, DT_RELA) ||
      !IsOr(dynamic, DT_RELAENT, sizeof(Elf64_Rela)) ||
      !IsOr(dynamic, DT_SYMENT, sizeof(Elf64_Sym))) {
    return RefusedObject("records of another size");
  }
  const auto has = [&](int64_t tag) { return dynamic.count(tag) != 0; };
  if (has(DT_RELA) != has(DT_RELASZ) || has(DT_RELA) != has(DT_RELAENT) ||
      has(DT_JMPREL) != has(DT_PLTRELSZ) || has(DT_JMPREL) != has(DT_PLTREL)) {
    return RefusedObject(
        "a table of relocations without a size, or a size without a table");
  }
  const auto got = dynamic.find(DT_PLTGOT);
  if (got != dynamic.end() &&
      !image.IsVariable(got->second, sizeof(uint64_t))) {
    return RefusedObject("a table of addresses outside its data");
  }
  return absl::OkStatus();
}

// Its symbols, in bytes that no relocation changes.
class Symbols {
 public:
  static absl::StatusOr<Symbols> Read(const Dynamic& dynamic,
                                      const ObjectImage& image) {
    Symbols symbols(image);
    for (const auto& [tag, value] : {std::pair(DT_SYMTAB, &symbols.table_),
                                     std::pair(DT_STRTAB, &symbols.names_),
                                     std::pair(DT_STRSZ, &symbols.names_size_),
                                     std::pair(DT_GNU_HASH, &symbols.hash_)}) {
      const auto found = dynamic.find(tag);
      if (found == dynamic.end())
        return RefusedObject("missing table of symbols");
      *value = found->second;
    }
    if (symbols.names_size_ == 0 ||
        !image.IsConstant(symbols.names_, symbols.names_size_) ||
        image.At<char>(symbols.names_ + symbols.names_size_ - 1) != '\0') {
      return RefusedObject("names of symbols that are cut off");
    }
    RETURN_IF_ERROR(symbols.At(0).status());
    RETURN_IF_ERROR(symbols.CheckHash());
    return symbols;
  }

  absl::StatusOr<Elf64_Sym> At(uint64_t number) const {
    const uint64_t address = table_ + number * sizeof(Elf64_Sym);
    const auto symbol = image_.At<Elf64_Sym>(address);
    if (!symbol.has_value() || !image_.IsConstant(address, sizeof(Elf64_Sym)) ||
        symbol->st_name >= names_size_) {
      return RefusedObject(absl::StrCat("symbol ", number, " is not there"));
    }
    const int type = ELF64_ST_TYPE(symbol->st_info);
    if (type == STT_GNU_IFUNC) {
      return RefusedObject("a symbol that code is run for");
    }
    if (type == STT_TLS) return RefusedObject("a symbol of threads' memory");
    return *symbol;
  }

  absl::string_view NameOf(const Elf64_Sym& symbol) const {
    return image_.NameAt(names_ + symbol.st_name, names_size_ - symbol.st_name);
  }

 private:
  explicit Symbols(const ObjectImage& image) : image_(image) {}

  // GNU's hash table of exported symbols: counts, a filter, then buckets, each the
  // number of a first symbol, then a word a symbol, whose lowest bit ends a
  // bucket. Whatever is looked up in it, the loader reads nothing else.
  absl::Status CheckHash() const {
    struct Header {
      uint32_t buckets;
      uint32_t first;
      uint32_t filter_words;
      uint32_t shift;
    };
    const absl::Status refused =
        RefusedObject("a hash table of symbols that is unsound");
    const auto header = image_.At<Header>(hash_);
    if (!header.has_value()) return refused;
    const uint64_t words = header->filter_words;
    const uint64_t buckets = hash_ + sizeof(Header) + words * sizeof(uint64_t);
    const uint64_t chains =
        buckets + uint64_t{header->buckets} * sizeof(uint32_t);
    if (header->buckets == 0 || words == 0 || (words & (words - 1)) != 0 ||
        !image_.IsConstant(hash_, chains - hash_)) {
      return refused;
    }
    uint64_t last = 0;
    for (uint64_t at = buckets; at < chains; at += sizeof(uint32_t)) {
      const uint32_t begin = image_.At<uint32_t>(at).value_or(0);
      if (begin == 0) continue;
      if (begin < header->first) return refused;
      last = std::max<uint64_t>(last, begin);
    }
    if (last == 0) return absl::OkStatus();
    for (uint64_t number = header->first;; ++number) {
      const uint64_t at = chains + (number - header->first) * sizeof(uint32_t);
      const auto word = image_.At<uint32_t>(at);
      if (!word.has_value() || !image_.IsConstant(at, sizeof(uint32_t))) {
        return refused;
      }
      RETURN_IF_ERROR(At(number).status());
      if (number >= last && (*word & 1) != 0) return absl::OkStatus();
    }
  }

  const ObjectImage& image_;
  uint64_t table_ = 0;
  uint64_t names_ = 0;
  uint64_t names_size_ = 0;
  uint64_t hash_ = 0;
};

// A relocation writes into the object's data, and not where the loader reads what
// was checked here.
bool IsItsData(uint64_t address, const ObjectImage& image) {
  const Elf64_Phdr& dynamic = image.dynamic();
  return image.IsVariable(address, sizeof(uint64_t)) &&
         (address + sizeof(uint64_t) <= dynamic.p_vaddr ||
          address >= dynamic.p_vaddr + dynamic.p_memsz);
}

absl::Status CheckRelocation(const Elf64_Rela& relocation,
                             const Symbols& symbols, const ObjectImage& image) {
  const uint32_t type = ELF64_R_TYPE(relocation.r_info);
  if (type == R_X86_64_NONE) return absl::OkStatus();
  if (!IsItsData(relocation.r_offset, image)) {
    return RefusedObject(absl::StrCat("a relocation that writes to 0x",
                                      absl::Hex(relocation.r_offset),
                                      ", outside its data"));
  }
  switch (type) {
    case R_X86_64_RELATIVE:
      return absl::OkStatus();
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
      break;
    default:
      return RefusedObject(absl::StrCat("a relocation of type ", type));
  }
  // Number 0 too: to the loader it is a symbol as others are.
  ASSIGN_OR_RETURN(const Elf64_Sym symbol,
                   symbols.At(ELF64_R_SYM(relocation.r_info)));
  // Any other is looked up by its name, in the process before the object, whether
  // the object defines it or not.
  if (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) return absl::OkStatus();
  const absl::string_view name = symbols.NameOf(symbol);
  if (MayBeTaken(name)) return absl::OkStatus();
  return RefusedObject(absl::StrCat("it asks its process for ", name));
}

// `relative`: so many at the beginning, which the loader takes for relative ones
// without a look.
absl::Status CheckRelocations(uint64_t table, uint64_t bytes, uint64_t relative,
                              const Symbols& symbols,
                              const ObjectImage& image) {
  if (bytes % sizeof(Elf64_Rela) != 0 ||
      relative > bytes / sizeof(Elf64_Rela) ||
      !image.IsConstant(table, bytes)) {
    return RefusedObject("a table of relocations of another size or place");
  }
  for (uint64_t i = 0; i < bytes / sizeof(Elf64_Rela); ++i) {
    const auto relocation =
        image.At<Elf64_Rela>(table + i * sizeof(Elf64_Rela));
    if (!relocation.has_value()) {
      return RefusedObject("relocations are cut off");
    }
    if (i < relative && ELF64_R_TYPE(relocation->r_info) != R_X86_64_RELATIVE) {
      return RefusedObject("fewer relative relocations than it counts");
    }
    RETURN_IF_ERROR(CheckRelocation(*relocation, symbols, image));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSharedObject(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const ObjectImage image, ObjectImage::Read(bytes));
  ASSIGN_OR_RETURN(Dynamic dynamic, ReadDynamic(image));
  RETURN_IF_ERROR(CheckTables(dynamic, image));
  ASSIGN_OR_RETURN(const Symbols symbols, Symbols::Read(dynamic, image));
  if (dynamic.count(DT_RELA) != 0) {
    RETURN_IF_ERROR(CheckRelocations(dynamic[DT_RELA], dynamic[DT_RELASZ],
                                     dynamic[DT_RELACOUNT], symbols, image));
  }
  if (dynamic.count(DT_JMPREL) == 0) return absl::OkStatus();
  return CheckRelocations(dynamic[DT_JMPREL], dynamic[DT_PLTRELSZ], 0, symbols,
                          image);
}

}  // namespace kiln

#ifndef KILN_COMPILER_TOOLCHAIN_OBJECT_SYMBOLS_H_
#define KILN_COMPILER_TOOLCHAIN_OBJECT_SYMBOLS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln {

// OK when the object code defines every one of `symbols` for others to find.
// A shared object and a cubin are both ELF files of 64 bits, little-endian; read
// are their symbol tables (ELF-64 Object File Format 1.5, sections 3 and 5).
// What is signed and kept must be what was asked for, whatever a compiler or a
// disk did.
//
// INTERNAL TOOLCHAIN_REJECTED: `image` is no such file, is cut off, or lacks the
// symbol that the message names. Reads within `image` only. Pure.
absl::Status CheckObjectSymbols(absl::string_view image,
                                absl::Span<const std::string> symbols);

}  // namespace kiln

#endif  // KILN_COMPILER_TOOLCHAIN_OBJECT_SYMBOLS_H_

#ifndef KILN_PROTO_BASE_OBJECT_CODE_H_
#define KILN_PROTO_BASE_OBJECT_CODE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// OK when a shared object (ELF, 64 bits, x86-64) is what a unit of kernels gives
// and no more: loading it runs nothing of it and loads nothing else, and what it
// takes from its process is arithmetic and memory functions of the C library.
//
// Read as the loader reads it, by program headers and the dynamic section;
// section headers may say what they like. Refused are
//   - constructors and destructors (DT_INIT, DT_INIT_ARRAY, ...), and every entry
//     of the dynamic section but those of symbols and relocations
//   - needed libraries, search paths, auditors, filters, a name to be found by
//   - relocations that run code (IRELATIVE, IFUNC), reach threads' memory, or
//     write anywhere but into the object's own data
//   - symbols that the process is asked for, defined or not, and that are not on
//     the list in object_code.cc
//   - tables of symbols, names, hashes and relocations that are cut off, or that a
//     relocation could change
//   - segments that overlap, or that may be written and executed; an executable
//     stack
//
// DATA_LOSS ARTIFACT_CORRUPT: "object code: ", what was found. Reads within
// `image` only, at most a few times its length. Pure.
absl::Status CheckSharedObject(absl::string_view image);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_OBJECT_CODE_H_

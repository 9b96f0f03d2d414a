#ifndef KILN_PROTO_BASE_ASSEMBLE_H_
#define KILN_PROTO_BASE_ASSEMBLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/artifact.pb.h"
#include "proto/base/digest.h"

namespace kiln {

// Joins a plan and the objects of its units into an Artifact. The daemon does
// it for everybody, a client does it for its own local worker: both here, so
// that both get the same bytes.

// Readers refuse any other. Raised with every change of Artifact's meaning.
inline constexpr uint32_t kArtifactFormatVersion = 4;

// What names a translation unit: SHA-256 of its language, source and flags.
// The target is not in it; the unit cache's key adds it and the toolchain.
Digest UnitDigest(const wire::TranslationUnit& unit);

// What a caller sees of an artifact: symbols; of each input its kind, dtype,
// sizes, strides, offset, alignment and whether it is mutated; of each result
// its kind, dtype, sizes, strides, and whether it aliases an input. A hot swap
// needs an equal one. Two plans that place or compute things differently inside
// have equal digests.
Digest InterfaceDigest(const wire::LaunchPlan& plan);

// The serialized bytes of the Artifact; equal arguments give equal bytes.
//
//   objects  one for each unit of `compiled`, in any order
//
// Logs of toolchains are dropped: they name files. Pure.
//
// Errors:
//   INTERNAL  a unit's digest is not that of its text, a unit has no object or
//             two, a kernel names a module that is not there
absl::StatusOr<std::string> AssembleArtifact(
    wire::CompilePlan compiled, std::vector<wire::ObjectCode> objects,
    const wire::Target& target, const Digest& compile_key,
    const Digest& request_digest);

// The CUDA version that a driver must at least run for all of the objects, as
// 13000; 0: they need no driver. Pure.
uint32_t LeastDriver(const std::vector<wire::ObjectCode>& objects);

// Bytes of a message that are a function of its fields alone. What is hashed
// or signed is serialized here.
std::string DeterministicBytes(const google::protobuf::MessageLite& message);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_ASSEMBLE_H_

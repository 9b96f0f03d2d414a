#ifndef KILN_PROTO_KEY_REQUEST_DIGEST_H_
#define KILN_PROTO_KEY_REQUEST_DIGEST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/digest.h"
#include "proto/compile_service.pb.h"
#include "proto/key/canonical_graph.h"

namespace kiln {

// What a client asks for, exactly. Client and daemon compute it alike: the
// client looks up by the total, the daemon computes it again before it stores.

// Raised with every change of what the parts mean.
inline constexpr absl::string_view kKeySchema = "kiln key 1";

// One named part of a key, so that people can be told why two keys differ.
struct KeyPart {
  std::string name;
  Digest digest;
  std::string text;  // short, for people; equal digests have equal texts

  friend bool operator==(const KeyPart& a, const KeyPart& b) {
    return a.name == b.name && a.digest == b.digest;
  }
};

// Parts, always these and in this order:
//
//   schema        kKeySchema
//   graph         canonical graph, without hints
//   target        architecture or instruction level, driver's CUDA version
//   options       CompileOptions.artifact, every field
//   host_kernels  operators that the client runs itself, as a set
//   plugins       pass plugins, in order
//   hints         HintClass of each symbol
//
// Not here, on purpose: sizes behind symbols (guards test them at lookup),
// names (canonical form drops them), diagnostics (they cannot reach an
// artifact), assumptions and forbidden guards (entries under one key differ in
// their guards).
struct RequestDigest {
  std::vector<KeyPart> parts;
  Digest total;
  // `total` and the assumed and forbidden guards: requests of one `job` are
  // served by one compile.
  Digest job;
};

// A request in canonical form: what is planned.
struct CanonicalRequest {
  // With the canonical graph, guards over its symbols, host kernels sorted and
  // once each. Diagnostics stay as they were.
  wire::CompileRequest request;
  RequestDigest digest;
  SymbolMap symbols;
  // What the caller's symbols are in this call, in canonical order: the hints
  // of its graph as they came.
  std::vector<int64_t> values;
};

// Linear in the request. Pure.
//
// Errors: those of CanonicalizeGraph, and
//   INVALID_ARGUMENT  BAD_TARGET       no target, an architecture or level
//                                      that is not known
//   INVALID_ARGUMENT  BAD_OPTION       an option this build does not know
//   INVALID_ARGUMENT  MALFORMED_GRAPH  an unsound guard
//   UNIMPLEMENTED     UNSUPPORTED_OP   a plugin: none is known yet
absl::StatusOr<CanonicalRequest> CanonicalizeRequest(
    const wire::CompileRequest& request);

// "cuda sm_90", "cpu x86-64-v4 avx512_bf16": for people, and what `purge
// --device` matches word by word.
std::string TargetText(const wire::Target& target);

}  // namespace kiln

#endif  // KILN_PROTO_KEY_REQUEST_DIGEST_H_

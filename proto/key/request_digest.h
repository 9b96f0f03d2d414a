#ifndef KILN_PROTO_KEY_REQUEST_DIGEST_H_
#define KILN_PROTO_KEY_REQUEST_DIGEST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/base/digest.h"
#include "proto/compile_service.pb.h"
#include "proto/key/canonical_graph.h"

namespace kiln {

// What a client asks for, exactly. Client and daemon compute it alike: the
// client looks up by the total, the daemon computes it again before it stores.

// Raised with every change of what the parts mean.
inline constexpr absl::string_view kKeySchema = "kiln key 3";

// Bytes of a part's text at most, and of a user's own cache_tag.
inline constexpr size_t kMaxPartText = 200;
inline constexpr size_t kMaxCacheTag = 256;

// One named part of a key, so that people can be told why two keys differ.
struct KeyPart {
  std::string name;
  Digest digest;
  // For people: at most kMaxPartText bytes. Equal digests have equal texts.
  std::string text;

  friend bool operator==(const KeyPart& a, const KeyPart& b) {
    return a.name == b.name && a.digest == b.digest;
  }
};

// Parts, always these and in this order:
//
//   schema        kKeySchema
//   namespace     whose artifacts these are (cache_namespace.h)
//   graph         canonical graph, without hints
//   target        architecture or instruction level
//   options       CompileOptions.artifact, every field
//   plugins       pass plugins, in order
//   hints         HintClass of each symbol
//
// Not here, on purpose: sizes behind symbols (guards test them at lookup),
// names (canonical form drops them), diagnostics (they cannot reach an
// artifact), forbidden guards (entries under one key differ in their guards),
// the caller's driver (it decides no byte; an entry says which ones it needs).
// Assumptions neither, and so nothing is made of them: see CanonicalRequest.
struct RequestDigest {
  std::vector<KeyPart> parts;
  Digest total;
  // `total`, the forbidden guards, and, where sizes decide, the sizes: requests
  // of one `job` are served by one compile.
  Digest job;
};

// RequestDigest::total of these parts.
Digest TotalOf(absl::Span<const KeyPart> parts);

// What a plan's decisions are made by: whether s0 <= s1, say, where the graph
// leaves it open.
enum class DecideBy {
  // The hint class of each symbol, which many callers share. The decisions may
  // be wrong for one of them: its sizes break a guard.
  kClasses,
  // The sizes of the caller. What a caller gets that asks again.
  kSizes,
};

// A request in canonical form: what is planned.
struct CanonicalRequest {
  // With the canonical graph and the namespace's name. Hints are classes or
  // sizes, as `decided_by` says. Diagnostics and the driver stay as they were.
  //
  // Forbidden guards are over canonical symbols, sorted, once each, without
  // their origins: what a client calls things reaches no artifact. Assumptions
  // are gone: they are not in the key, so no byte may depend on them. What a
  // client vouches for belongs in the bounds of symbols, which are.
  wire::CompileRequest request;
  DecideBy decided_by = DecideBy::kClasses;
  RequestDigest digest;
  SymbolMap symbols;
  // What the caller's symbols are in this call, in canonical order: the hints
  // of its graph as they came.
  std::vector<int64_t> values;
};

// Linear in the request. Pure. A request that forbids guards is decided by
// sizes, whatever `decide_by`: by classes it would break the next guard.
//
// Errors: those of CanonicalizeGraph, and
//   INVALID_ARGUMENT  BAD_TARGET       no target, an architecture or level
//                                      that is not known
//   INVALID_ARGUMENT  BAD_OPTION       an option this build does not know, a
//                                      cache_tag above kMaxCacheTag, a name that
//                                      is no namespace's
//   INVALID_ARGUMENT  MALFORMED_GRAPH  an unsound guard
//   UNIMPLEMENTED     UNSUPPORTED_OP   a plugin: none is known yet
absl::StatusOr<CanonicalRequest> CanonicalizeRequest(
    const wire::CompileRequest& request,
    DecideBy decide_by = DecideBy::kClasses);

// "cuda sm_90", "cpu x86-64-v4 avx512_bf16": for people, and what `purge
// --device` matches word by word.
std::string TargetText(const wire::Target& target);

// Whether some TargetText has the word: "cuda", "sm_90", "cpu", "x86-64-v4".
bool IsTargetWord(absl::string_view word);

}  // namespace kiln

#endif  // KILN_PROTO_KEY_REQUEST_DIGEST_H_

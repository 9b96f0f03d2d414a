#ifndef KILN_CACHE_ENTRY_FACTS_H_
#define KILN_CACHE_ENTRY_FACTS_H_

// What the facts of keys and entries say, as C++ has it. All pure.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cache/compile_key.h"
#include "proto/base/digest.h"
#include "proto/cache_entry.pb.h"

namespace kiln {

inline Digest IdOf(const wire::EntryFacts& entry) {
  return Digest::FromBytes(entry.entry_id()).value_or(Digest());
}

inline std::vector<KeyPart> PartsOf(const wire::KeyFacts& key) {
  std::vector<KeyPart> parts;
  for (const wire::CacheKeyPart& part : key.parts()) {
    parts.push_back({part.name(),
                     Digest::FromBytes(part.digest()).value_or(Digest()),
                     part.text()});
  }
  return parts;
}

// Without what is for people alone.
inline wire::KeyFacts KeyFactsOf(const CompileKey& key,
                                 absl::string_view cache_namespace) {
  wire::KeyFacts facts;
  facts.set_compile_key(key.digest.ToBytes());
  facts.set_cache_namespace(std::string(cache_namespace));
  for (const KeyPart& part : key.parts) {
    wire::CacheKeyPart& out = *facts.add_parts();
    out.set_name(part.name);
    out.set_digest(part.digest.ToBytes());
    out.set_text(part.text);
  }
  return facts;
}

// A part of a key; nullptr where it has none of that name.
inline const KeyPart* PartNamed(absl::string_view name,
                                const std::vector<KeyPart>& parts) {
  const auto found =
      std::find_if(parts.begin(), parts.end(),
                   [&](const KeyPart& part) { return part.name == name; });
  return found == parts.end() ? nullptr : &*found;
}
inline const KeyPart* GraphPart(const std::vector<KeyPart>& parts) {
  return PartNamed("graph", parts);
}

// Whether the key is of that namespace; of any when it is empty.
inline bool IsOf(const wire::KeyFacts& key, absl::string_view cache_namespace) {
  return cache_namespace.empty() || key.cache_namespace() == cache_namespace;
}

}  // namespace kiln

#endif  // KILN_CACHE_ENTRY_FACTS_H_

#include "cache/graph_keys.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kiln {
namespace {

// Where a graph's record lies: under no graph's own digest.
Digest RecordOf(const Digest& graph, const Digest& cache_namespace) {
  return Sha256()
      .AddField("kiln keys of a graph 1")
      .Add(graph.bytes())
      .Add(cache_namespace.bytes())
      .Finish();
}

}  // namespace

absl::Status GraphKeys::Add(const Digest& graph, const Digest& cache_namespace,
                            const Digest& key) {
  const Digest record = RecordOf(graph, cache_namespace);
  const KeyClaims::Claim claim(claims_, record);
  std::vector<Digest> keys = Read(record);
  if (std::find(keys.begin(), keys.end(), key) != keys.end())
    return absl::OkStatus();
  keys.insert(keys.begin(), key);
  keys.resize(std::min(keys.size(), kMost));
  std::string bytes;
  for (const Digest& each : keys) absl::StrAppend(&bytes, each.bytes());
  return store_.Put(record, bytes);
}

std::vector<Digest> GraphKeys::Find(const Digest& graph,
                                    const Digest& cache_namespace) const {
  return Read(RecordOf(graph, cache_namespace));
}

// Nothing of what another build may have made of it: the next Add begins anew.
std::vector<Digest> GraphKeys::Read(const Digest& record) const {
  const absl::StatusOr<Blob> blob = store_.Get(record);
  if (!blob.ok() || (*blob)->size() % Digest::kBytes != 0) return {};
  std::vector<Digest> keys;
  absl::string_view left = **blob;
  while (!left.empty() && keys.size() < kMost) {
    keys.push_back(*Digest::FromBytes(left.substr(0, Digest::kBytes)));
    left.remove_prefix(Digest::kBytes);
  }
  return keys;
}

}  // namespace kiln

#ifndef KILN_PROTO_CORPUS_CORPUS_BYTES_H_
#define KILN_PROTO_CORPUS_CORPUS_BYTES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// The bytes of the file at `path`, or of `path`.zst unpacked (Zstandard, one
// frame that states its size, at most 1 GiB).
//
// Errors: NOT_FOUND neither is there; DATA_LOSS cannot be read or unpacked.
absl::StatusOr<std::string> ReadCorpusBytes(const std::string& path);

// The corpus files (NAME.jsonl, also stored as NAME.jsonl.zst) that `path`
// means, without ".zst", sorted: itself, or those in a folder and the folders
// under it. NOT_FOUND when there are none.
absl::StatusOr<std::vector<std::string>> ListCorpusFiles(
    const std::string& path);

}  // namespace kiln

#endif  // KILN_PROTO_CORPUS_CORPUS_BYTES_H_

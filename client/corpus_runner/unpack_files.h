#ifndef KILN_CLIENT_CORPUS_RUNNER_UNPACK_FILES_H_
#define KILN_CLIENT_CORPUS_RUNNER_UNPACK_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace kiln {

// Writes the corpus files at `paths` (NAME.jsonl or folders) to `folder`, which
// is made, as other programs read them: plain .jsonl and .safetensors.
//
// Errors: as ListCorpusFiles and ReadCorpusBytes (corpus_bytes.h); STORAGE when
// a file is not written.
absl::Status UnpackFiles(const std::vector<std::string>& paths,
                         const std::string& folder);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_UNPACK_FILES_H_

#ifndef KILN_CLIENT_CORPUS_RUNNER_UNPACK_FILES_H_
#define KILN_CLIENT_CORPUS_RUNNER_UNPACK_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace kiln {

// Unpacks the corpus files at `paths` (NAME.jsonl or folders) into `folder`, as plain
// .jsonl and .safetensors that other programs can read. Creates the folder.
//
// Errors: those of ListCorpusFiles and ReadCorpusBytes (corpus_bytes.h); STORAGE if a
// file cannot be written.
absl::Status UnpackFiles(const std::vector<std::string>& paths,
                         const std::string& folder);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_UNPACK_FILES_H_

#include "client/corpus_runner/unpack_files.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_bytes.h"

namespace kiln {

absl::Status UnpackFiles(const std::vector<std::string>& paths,
                         const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const std::vector<std::string> files,
                     ListCorpusFiles(path));
    for (const std::string& jsonl : files) {
      const std::string stem(absl::StripSuffix(jsonl, ".jsonl"));
      for (const char* kind : {".jsonl", ".safetensors"}) {
        const auto bytes = ReadCorpusBytes(stem + kind);
        if (absl::IsNotFound(bytes.status())) continue;  // a case without data
        RETURN_IF_ERROR(bytes.status());
        const std::filesystem::path to =
            std::filesystem::path(folder) /
            (std::filesystem::path(stem).filename().string() + kind);
        if (!(std::ofstream(to, std::ios::binary) << *bytes)) {
          return MakeError(ErrorReason::kStorage,
                           absl::StrCat(to.string(), ": not written"));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln

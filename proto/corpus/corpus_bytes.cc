#include "proto/corpus/corpus_bytes.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/packed_bytes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxUnpackedBytes = size_t{1} << 30;

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at cannot be opened either
  if (fs::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": found a folder, expected a file"));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in && errno == EACCES) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, ": no permission to read it"));
  }
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) return absl::DataLossError(absl::StrCat(path, ": unreadable"));
  return std::move(text).str();
}

}  // namespace

absl::StatusOr<std::string> ReadCorpusBytes(const std::string& path) {
  absl::StatusOr<std::string> plain = ReadWhole(path);
  if (plain.ok() || !absl::IsNotFound(plain.status())) return plain;
  const std::string packed_path = absl::StrCat(path, ".zst");
  const absl::StatusOr<std::string> packed = ReadWhole(packed_path);
  if (!packed.ok()) return plain;
  absl::StatusOr<std::string> whole = Unpack(*packed, kMaxUnpackedBytes);
  RETURN_IF_ERROR(Annotate(whole.status(), packed_path));
  return whole;
}

absl::StatusOr<std::vector<std::string>> ListCorpusFiles(
    const std::string& path) {
  std::error_code error;
  std::vector<std::string> files;
  if (!fs::is_directory(path, error)) {
    files.emplace_back(absl::StripSuffix(path, ".zst"));
    if (!fs::exists(path, error) && !fs::exists(path + ".zst", error)) {
      return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    }
    return files;
  }
  fs::recursive_directory_iterator it(path, error);
  for (; !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().string();
    const absl::string_view stem = absl::StripSuffix(name, ".zst");
    if (absl::EndsWith(stem, ".jsonl")) files.emplace_back(stem);
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat(path, ": contains no .jsonl file"));
  }
  return files;
}

}  // namespace kiln

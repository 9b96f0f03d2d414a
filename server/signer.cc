#include "server/signer.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "proto/key/cache_namespace.h"
#include "server/access/private_file.h"

namespace kiln {
namespace {

// More than a key has, so that it is told what was found.
constexpr int64_t kMaxFileBytes = 4096;

absl::Status Refuse(ErrorReason reason, const std::string& path,
                    absl::string_view what) {
  return MakeError(reason, absl::StrCat("signing key ", path, ": ", what));
}

// Removes what processes that ended while they made the key have left.
void RemoveUnfinished(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string prefix = absl::StrCat(whole.filename().string(), ".");
  std::error_code error;
  for (const auto& file :
       std::filesystem::directory_iterator(whole.parent_path(), error)) {
    const std::string name = file.path().filename().string();
    int pid = 0;
    if (!absl::StartsWith(name, prefix) ||
        !absl::SimpleAtoi(name.substr(prefix.size()), &pid) || pid <= 0) {
      continue;
    }
    if (kill(pid, 0) != 0 && errno == ESRCH) unlink(file.path().c_str());
  }
}

// Made under another name and linked into place: never half written, and of
// two that make it at once one wins.
absl::Status Make(const std::string& path) {
  ASSIGN_OR_RETURN(const SigningKey key, SigningKey::Generate());
  const std::string fresh = absl::StrCat(path, ".", getpid());
  // A process of the same number may have left it.
  unlink(fresh.c_str());
  const int fd =
      open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return Refuse(ErrorReason::kStorage, path, strerror(errno));
  const absl::Cleanup close_and_drop = [fd, &fresh] {
    close(fd);
    unlink(fresh.c_str());
  };
  const std::string& secret = key.secret_bytes();
  if (write(fd, secret.data(), secret.size()) !=
          static_cast<ssize_t>(secret.size()) ||
      fsync(fd) != 0 ||
      (link(fresh.c_str(), path.c_str()) != 0 && errno != EEXIST)) {
    return Refuse(ErrorReason::kStorage, path, strerror(errno));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SigningKey> LoadOrMakeSigningKey(const std::string& path) {
  RemoveUnfinished(path);
  if (access(path.c_str(), F_OK) != 0) RETURN_IF_ERROR(Make(path));
  ASSIGN_OR_RETURN(const std::string bytes,
                   ReadPrivateFile(path, kMaxFileBytes));
  if (bytes.size() != SigningKey::kBytes) {
    return Refuse(ErrorReason::kArtifactUntrusted, path,
                  absl::StrCat("found ", bytes.size(), " bytes, expected ",
                               int{SigningKey::kBytes}));
  }
  return SigningKey::FromBytes(bytes);
}

absl::StatusOr<TrustedKeys> ParseKeys(const std::vector<std::string>& texts) {
  TrustedKeys keys;
  for (const std::string& text : texts) {
    const size_t colon = text.find(':');
    const bool scoped = colon != std::string::npos;
    const std::optional<Digest> bytes =
        Digest::FromHex(scoped ? text.substr(colon + 1) : text);
    if (!bytes.has_value()) {
      return MakeError(ErrorReason::kBadOption,
                       absl::StrCat("found \"", text.substr(0, 80),
                                    "\", expected 64 hexadecimal digits as in "
                                    "`compilectl keys list`"));
    }
    std::string cache_namespace;
    if (scoped) {
      ASSIGN_OR_RETURN(cache_namespace, NamespaceNamed(text.substr(0, colon)));
    }
    ASSIGN_OR_RETURN(const PublicKey key, PublicKey::FromBytes(bytes->bytes()));
    keys.Add(key, cache_namespace);
  }
  return keys;
}

}  // namespace kiln

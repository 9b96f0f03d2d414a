#include "server/signer.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

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
void RemoveUnfinished(const OpenFolder& folder, const std::string& name) {
  const auto files = folder.Names();
  if (!files.ok()) return;  // making the key will say so
  const std::string prefix = absl::StrCat(name, ".");
  for (const std::string& file : *files) {
    int pid = 0;
    if (!absl::StartsWith(file, prefix) ||
        !absl::SimpleAtoi(file.substr(prefix.size()), &pid) || pid <= 0) {
      continue;
    }
    if (kill(pid, 0) != 0 && errno == ESRCH)
      unlinkat(folder.fd(), file.c_str(), 0);
  }
}

// Made under another name and linked into place: never half written, and of
// two that make it at once one wins.
absl::Status Make(const OpenFolder& folder, const std::string& name) {
  ASSIGN_OR_RETURN(const SigningKey key, SigningKey::Generate());
  const int dir = folder.fd();
  const std::string path = folder.PathOf(name);
  const std::string fresh = absl::StrCat(name, ".", getpid());
  // A process of the same number may have left it.
  unlinkat(dir, fresh.c_str(), 0);
  const int fd =
      openat(dir, fresh.c_str(),
             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return Refuse(ErrorReason::kStorage, path, strerror(errno));
  const absl::Cleanup close_and_drop = [fd, dir, &fresh] {
    close(fd);
    unlinkat(dir, fresh.c_str(), 0);
  };
  const std::string& secret = key.secret_bytes();
  if (write(fd, secret.data(), secret.size()) !=
          static_cast<ssize_t>(secret.size()) ||
      fsync(fd) != 0 ||
      (linkat(dir, fresh.c_str(), dir, name.c_str(), 0) != 0 &&
       errno != EEXIST)) {
    return Refuse(ErrorReason::kStorage, path, strerror(errno));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SigningKey> LoadOrMakeSigningKey(const OpenFolder& folder,
                                                const std::string& name) {
  RemoveUnfinished(folder, name);
  if (!folder.Has(name)) RETURN_IF_ERROR(Make(folder, name));
  ASSIGN_OR_RETURN(const std::string bytes,
                   ReadPrivateFile(folder, name, kMaxFileBytes));
  if (bytes.size() != SigningKey::kBytes) {
    return Refuse(ErrorReason::kArtifactUntrusted, folder.PathOf(name),
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

#include "server/key_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "proto/key/cache_namespace.h"
#include "server/access/private_file.h"
#include "server/key_file.h"
#include "server/signer.h"

namespace kiln {
namespace {

std::string SecretName(absl::string_view cache_namespace) {
  return cache_namespace.empty()
             ? "signing.key"
             : absl::StrCat("signing.", cache_namespace, ".key");
}

wire::DaemonKey RowOf(const PublicKey& key, absl::string_view cache_namespace) {
  wire::DaemonKey row;
  row.set_key_id(key.key_id());
  row.set_public_key(key.bytes());
  row.set_cache_namespace(std::string(cache_namespace));
  return row;
}

// The row of the key, made when there is none.
wire::DaemonKey& RowIn(wire::KeyFile& file, const std::string& key_id) {
  for (wire::DaemonKey& row : *file.mutable_keys())
    if (row.key_id() == key_id) return row;
  wire::DaemonKey& row = *file.add_keys();
  row.set_key_id(key_id);
  return row;
}

// The id that people wrote.
absl::StatusOr<std::string> KeyIdOf(absl::string_view hex) {
  const bool digits = std::all_of(hex.begin(), hex.end(), absl::ascii_isxdigit);
  const std::string bytes = digits && hex.size() % 2 == 0
                                ? absl::HexStringToBytes(hex)
                                : std::string();
  if (bytes.size() == kKeyIdBytes) return bytes;
  if (bytes.size() == PublicKey::kBytes) {
    ASSIGN_OR_RETURN(const PublicKey key, PublicKey::FromBytes(bytes));
    return key.key_id();
  }
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat("key: found \"", hex.substr(0, 80),
                                "\", due the 16 digits of its id or the 64 of "
                                "the public key, as `compilectl keys list` "
                                "tells them"));
}

absl::Status CheckRoomToRevoke(const wire::KeyFile& file,
                               const std::string& id) {
  int revoked = 0;
  for (const wire::DaemonKey& row : file.keys()) {
    if (row.revoked_unix_ms() == 0) continue;
    if (row.key_id() == id) return absl::OkStatus();
    ++revoked;
  }
  if (revoked < kMaxRevokedKeys) return absl::OkStatus();
  return MakeError(
      ErrorReason::kBadOption,
      absl::StrCat("keys: ", revoked,
                   " keys were revoked, and no more revocations are kept; "
                   "start the daemon with a new data folder"));
}

// NOT_FOUND, naming the first keys there are, unless `id` is one of them. A key is
// never forgotten, so that one that is known stays so.
absl::Status CheckKnown(const std::string& id,
                        const std::vector<KeyStore::Row>& keys) {
  constexpr size_t kShown = 16;
  std::string there;
  for (size_t i = 0; i < keys.size(); ++i) {
    const wire::DaemonKey& key = keys[i].key;
    if (key.key_id() == id) return absl::OkStatus();
    if (i >= kShown) continue;
    absl::StrAppend(&there, i == 0 ? "" : ", ",
                    absl::BytesToHexString(key.key_id()), " (namespace ",
                    key.cache_namespace().empty() ? "*" : key.cache_namespace(),
                    ")");
  }
  return absl::NotFoundError(absl::StrCat(
      "key ", absl::BytesToHexString(id), ": not known here; there are ", there,
      keys.size() > kShown ? ", ..." : "",
      "; `--unknown` revokes a key in advance"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<KeyStore>> KeyStore::Open(
    const OpenFolder& folder, const TrustedKeys& others, const Clock& clock) {
  auto store = absl::WrapUnique(new KeyStore(folder, others, clock));
  RETURN_IF_ERROR(store->Load());
  return store;
}

absl::StatusOr<SigningKey> KeyStore::LoadSigner(
    absl::string_view cache_namespace, bool was_there) const {
  const std::string name = SecretName(cache_namespace);
  const bool missing = !folder_.Has(name);
  ASSIGN_OR_RETURN(SigningKey key, LoadOrMakeSigningKey(folder_, name));
  if (missing && was_there) {
    LogWarning(
        "keys.signing_key_replaced",
        {{"file", folder_.PathOf(name)},
         {"key", absl::BytesToHexString(key.public_key().key_id())},
         {"means",
          "the file was missing, so a new key was made and signs from now on. "
          "What the missing key signed is compiled again, unless `compilectl "
          "keys list` shows that key. Clients and daemons that have the "
          "missing key in their configuration need the new one. If the file "
          "may have been stolen, revoke the missing key"}});
  }
  return key;
}

void KeyStore::KeepList() {
  MutexLock lock(&mu_);
  if (list_is_current_) return;
  const absl::Status written = WriteKeyFile(folder_, file_);
  list_is_current_ = written.ok();
  if (!written.ok())
    LogWarning("keys.list_not_written", {{"error", written.ToString()}});
}

absl::Status KeyStore::Load() {
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(StoredKeys stored, ReadKeyFile(folder_));
  TrustedKeys believed = others_;
  std::set<std::string> revoked;
  for (const wire::DaemonKey& row : stored.keys.keys()) {
    if (row.revoked_unix_ms() != 0) {
      believed.Revoke(row.key_id());
      revoked.insert(row.key_id());
      continue;
    }
    ASSIGN_OR_RETURN(const PublicKey key,
                     PublicKey::FromBytes(row.public_key()));
    believed.Add(key, row.cache_namespace());
    if (!row.cache_namespace().empty())
      namespaces_.insert(row.cache_namespace());
  }
  list_is_current_ = stored.has_checksum;
  if (!stored.exists && folder_.Has(SecretName(""))) {
    LogWarning(
        "keys.list_missing",
        {{"file", folder_.PathOf("keys")},
         {"means",
          "there is a signing key and no list of keys. A data folder of an "
          "earlier build may be like this. Otherwise the list was removed, and "
          "keys that were revoked are believed again where a configuration has "
          "them: restore the file from a backup, or revoke them again"}});
  }
  ASSIGN_OR_RETURN(SigningKey own, LoadSigner("", stored.exists));
  file_ = std::move(stored.keys);
  // A daemon that ended between the two steps of a revocation.
  const bool stale = revoked.contains(own.public_key().key_id());
  ring_ = std::make_shared<KeyRing>(std::move(own), believed);
  if (stale) RETURN_IF_ERROR(RotateLocked("").status());
  for (const std::string& name : namespaces_) {
    ASSIGN_OR_RETURN(SigningKey key, LoadSigner(name, /*was_there=*/true));
    if (revoked.contains(key.public_key().key_id())) {
      RETURN_IF_ERROR(RotateLocked(name).status());
    } else {
      ring_->SetSigner(name, std::move(key));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PublicKey> KeyStore::Rotate(absl::string_view cache_namespace) {
  if (!cache_namespace.empty())
    RETURN_IF_ERROR(NamespaceNamed(cache_namespace).status());
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckRoom(cache_namespace));
  return RotateLocked(cache_namespace);
}

absl::Status KeyStore::CheckRoom(absl::string_view cache_namespace) const {
  const std::string name(cache_namespace);
  const std::string shown = name.empty() ? "*" : name;
  const bool has_key = name.empty() || namespaces_.contains(name);
  if (!has_key && namespaces_.size() >= kMaxNamespacesWithKeys) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("keys: ", kMaxNamespacesWithKeys,
                     " namespaces have keys of their own, the most there may "
                     "be; namespace ",
                     shown, " stays with the daemon's key"));
  }
  std::set<std::string> believed;
  if (has_key) believed.insert(ring_->SignerOf(name)->public_key().key_id());
  for (const wire::DaemonKey& row : file_.keys()) {
    if (row.revoked_unix_ms() == 0 && row.cache_namespace() == name)
      believed.insert(row.key_id());
  }
  if (believed.size() < kMaxKeysANamespace) return absl::OkStatus();
  return MakeError(
      ErrorReason::kBadOption,
      absl::StrCat("keys: namespace ", shown, " has ", believed.size(),
                   " keys that are still believed, and at most ",
                   kMaxKeysANamespace,
                   " are allowed; an admin of every namespace can revoke old "
                   "ones (`compilectl keys list`, `compilectl keys revoke "
                   "ID`)"));
}

// The list first: a key that signs is always on it, and one that is on it and has
// no secret is harmless.
absl::StatusOr<PublicKey> KeyStore::RotateLocked(
    absl::string_view cache_namespace) {
  ASSIGN_OR_RETURN(SigningKey next, SigningKey::Generate());
  const PublicKey made = next.public_key();
  wire::KeyFile file = file_;
  const std::string name(cache_namespace);
  if (cache_namespace.empty() || namespaces_.contains(name)) {
    const PublicKey before = ring_->SignerOf(cache_namespace)->public_key();
    wire::DaemonKey& row = RowIn(file, before.key_id());
    row.set_public_key(before.bytes());
    row.set_cache_namespace(name);
  }
  *file.add_keys() = RowOf(made, cache_namespace);
  file.mutable_keys()->rbegin()->set_made_unix_ms(NowMs());
  RETURN_IF_ERROR(WriteKeyFile(folder_, file));
  RETURN_IF_ERROR(ReplacePrivateFile(folder_, SecretName(cache_namespace),
                                     next.secret_bytes()));
  ring_->SetSigner(cache_namespace, std::move(next));
  if (!name.empty()) namespaces_.insert(name);
  file_ = std::move(file);
  return made;
}

absl::StatusOr<KeyStore::Revoked> KeyStore::Revoke(absl::string_view key_hex,
                                                   bool unknown) {
  ASSIGN_OR_RETURN(const std::string id, KeyIdOf(key_hex));
  if (!unknown) RETURN_IF_ERROR(CheckKnown(id, List()));
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckRoomToRevoke(file_, id));
  Revoked revoked = {.id = id};
  std::set<std::string> scopes = namespaces_;
  scopes.insert("");
  for (const std::string& name : scopes) {
    if (ring_->SignerOf(name)->public_key().key_id() == id &&
        (name.empty() || namespaces_.contains(name))) {
      ASSIGN_OR_RETURN(const PublicKey made, RotateLocked(name));
      revoked.signs_now.push_back(RowOf(made, name));
    }
  }
  wire::KeyFile file = file_;
  wire::DaemonKey& row = RowIn(file, id);
  // What is of another daemon, or not known, has no public key on the list.
  revoked.signed_indexes =
      !row.public_key().empty() && row.cache_namespace().empty();
  if (row.revoked_unix_ms() == 0) row.set_revoked_unix_ms(NowMs());
  RETURN_IF_ERROR(WriteKeyFile(folder_, file));
  file_ = std::move(file);
  ring_->Revoke(id);
  return revoked;
}

std::vector<KeyStore::Row> KeyStore::List() const {
  MutexLock lock(&mu_);
  std::vector<Row> signing, believed, revoked;
  std::set<std::string> listed;
  const auto add_signer = [&](const std::string& name) {
    const PublicKey key = ring_->SignerOf(name)->public_key();
    wire::DaemonKey row = RowOf(key, name);
    for (const wire::DaemonKey& known : file_.keys())
      if (known.key_id() == key.key_id()) row = known;
    listed.insert(key.key_id());
    signing.push_back({.key = std::move(row), .signs = true});
  };
  add_signer("");
  for (const std::string& name : namespaces_) add_signer(name);
  for (const wire::DaemonKey& row : file_.keys()) {
    if (!listed.insert(row.key_id()).second) continue;
    (row.revoked_unix_ms() != 0 ? revoked : believed).push_back({.key = row});
  }
  for (const TrustedKeys::Row& other : others_.rows()) {
    if (!listed.insert(other.key.key_id()).second) continue;
    for (const std::string& name : other.namespaces)
      believed.push_back({.key = RowOf(other.key, name), .foreign = true});
  }
  std::vector<Row> all = std::move(signing);
  all.insert(all.end(), believed.begin(), believed.end());
  all.insert(all.end(), revoked.begin(), revoked.end());
  return all;
}

}  // namespace kiln

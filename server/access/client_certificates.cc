#include "server/access/client_certificates.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr absl::Duration kReread = absl::Seconds(5);
// How long a verdict holds: a certificate that runs out is refused so much later at
// most.
constexpr absl::Duration kVerdictTime = absl::Seconds(5);
constexpr size_t kMostVerdicts = 4096;
// Of a chain that a caller shows.
constexpr size_t kMostBytes = 64 << 10;
constexpr int kMostLinks = 8;
constexpr int kSecurityLevel = 2;
constexpr size_t kNameBytes = 100;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_STORE_CTX* context) const {
    X509_STORE_CTX_free(context);
  }
  void operator()(STACK_OF(X509) * all) const {
    sk_X509_pop_free(all, X509_free);
  }
  void operator()(STACK_OF(X509_INFO) * all) const {
    sk_X509_INFO_pop_free(all, X509_INFO_free);
  }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Owned<BIO> Reader(absl::string_view bytes) {
  return Owned<BIO>(
      BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

// No passphrase is asked for on a terminal.
char kNoPassphrase[] = "";

Owned<X509> ReadOne(BIO* from) {
  return Owned<X509>(PEM_read_bio_X509(from, nullptr, nullptr, kNoPassphrase));
}

absl::Status Refuse(absl::string_view whose, absl::string_view why) {
  return MakeError(ErrorReason::kUnauthenticated,
                   absl::StrCat("certificate ", whose, ": ", why));
}

// "CN = trainer.example, number 1F", printable whatever a stranger wrote into it.
std::string TextOf(X509* certificate) {
  const Owned<BIO> out(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(out.get(), X509_get_subject_name(certificate), 0,
                     XN_FLAG_ONELINE);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out.get(), &bytes);
  std::string name(
      bytes, std::min(static_cast<size_t>(std::max(size, 0L)), kNameBytes));
  BIGNUM* number =
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* digits = number == nullptr ? nullptr : BN_bn2hex(number);
  if (digits != nullptr)
    absl::StrAppend(&name, ", number ",
                    absl::string_view(digits).substr(0, kNameBytes));
  OPENSSL_free(digits);
  BN_free(number);
  return name;
}

// What came with the leaf, at most kMostLinks.
Owned<STACK_OF(X509)> Links(absl::string_view chain) {
  Owned<STACK_OF(X509)> links(sk_X509_new_null());
  const Owned<BIO> from = Reader(chain);
  for (int i = 0; i < kMostLinks; ++i) {
    Owned<X509> link = ReadOne(from.get());
    if (link == nullptr || sk_X509_push(links.get(), link.get()) == 0) break;
    static_cast<void>(link.release());
  }
  return links;
}

absl::Status Verify(X509_STORE* store, absl::string_view leaf_bytes,
                    absl::string_view chain, absl::Time now) {
  if (leaf_bytes.size() + chain.size() > kMostBytes) {
    return Refuse(
        "", absl::StrCat("found a chain of ", leaf_bytes.size() + chain.size(),
                         " bytes, expected at most ", kMostBytes));
  }
  const Owned<X509> leaf = ReadOne(Reader(leaf_bytes).get());
  if (leaf == nullptr) return Refuse("", "is not a certificate in PEM");
  const Owned<STACK_OF(X509)> links = Links(chain);
  const Owned<X509_STORE_CTX> context(X509_STORE_CTX_new());
  if (links == nullptr || context == nullptr ||
      X509_STORE_CTX_init(context.get(), store, leaf.get(), links.get()) != 1) {
    return Refuse(TextOf(leaf.get()), "cannot be checked");
  }
  X509_VERIFY_PARAM* due = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_depth(due, kMostLinks);
  X509_VERIFY_PARAM_set_auth_level(due, kSecurityLevel);
  X509_VERIFY_PARAM_set_time(due, absl::ToTimeT(now));
  if (X509_VERIFY_PARAM_set_purpose(due, X509_PURPOSE_SSL_CLIENT) != 1 ||
      X509_VERIFY_PARAM_set_trust(due, X509_TRUST_SSL_CLIENT) != 1) {
    return Refuse(TextOf(leaf.get()), "cannot be checked");
  }
  if (X509_verify_cert(context.get()) == 1) return absl::OkStatus();
  int error = X509_STORE_CTX_get_error(context.get());
  // Less than good is never good.
  if (error == X509_V_OK) error = X509_V_ERR_UNSPECIFIED;
  return Refuse(TextOf(leaf.get()), X509_verify_cert_error_string(error));
}

}  // namespace

void ClientCertificates::FreeStore::operator()(X509_STORE* store) const {
  X509_STORE_free(store);
}

absl::StatusOr<std::unique_ptr<ClientCertificates>> ClientCertificates::Open(
    const std::string& path, const Clock& clock) {
  auto opened = absl::WrapUnique(new ClientCertificates(path, clock));
  MutexLock lock(&opened->mu_);
  opened->looked_ = clock.Steady();
  opened->version_ = VersionOf(path);
  ASSIGN_OR_RETURN(opened->store_, Read(path));
  return opened;
}

ClientCertificates::~ClientCertificates() = default;

absl::StatusOr<ClientCertificates::Store> ClientCertificates::Read(
    const std::string& path) {
  const auto refuse = [&path](absl::string_view what) {
    ERR_clear_error();
    return MakeError(ErrorReason::kBadOption, absl::StrCat(path, ": ", what));
  };
  const Owned<BIO> file(BIO_new_file(path.c_str(), "re"));
  if (file == nullptr)
    return refuse(absl::StrCat("can't be read: ", strerror(errno)));
  const Owned<STACK_OF(X509_INFO)> all(
      PEM_X509_INFO_read_bio(file.get(), nullptr, nullptr, kNoPassphrase));
  Store store(X509_STORE_new());
  if (all == nullptr || store == nullptr) return refuse("is not a PEM file");
  int certificates = 0;
  int lists = 0;
  for (int i = 0; i < sk_X509_INFO_num(all.get()); ++i) {
    const X509_INFO* item = sk_X509_INFO_value(all.get(), i);
    if (item->x509 != nullptr) {
      if (X509_STORE_add_cert(store.get(), item->x509) != 1)
        return refuse("has a certificate that cannot be taken");
      ++certificates;
    }
    if (item->crl != nullptr) {
      if (X509_STORE_add_crl(store.get(), item->crl) != 1)
        return refuse("has a revocation list that cannot be taken");
      ++lists;
    }
  }
  if (certificates == 0) return refuse("no certificate in PEM");
  if (lists > 0)
    X509_STORE_set_flags(store.get(),
                         X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  ERR_clear_error();
  return store;
}

void ClientCertificates::Reread() {
  const SteadyTime now = clock_.Steady();
  if (Between(looked_, now) < kReread) return;
  looked_ = now;
  const FileVersion version = VersionOf(path_);
  if (version == version_) return;
  auto read = Read(path_);
  if (!read.ok()) {
    LogWarning("tls.client_ca_not_taken",
               {{"error", std::string(read.status().message())}});
    return;  // and tried again: it may be half written
  }
  store_ = *std::move(read);
  version_ = version;
  verdicts_.clear();
  connections_.clear();
}

void ClientCertificates::Keep(uint64_t connection, const Verdict& verdict) {
  if (connection == 0) return;
  if (connections_.size() >= kMostVerdicts) connections_.clear();
  connections_[connection] = verdict;
}

std::optional<absl::Status> ClientCertificates::Known(uint64_t connection) {
  const SteadyTime now = clock_.Steady();
  MutexLock lock(&mu_);
  Reread();
  const auto known = connections_.find(connection);
  if (known == connections_.end() || now >= known->second.good_until)
    return std::nullopt;
  return known->second.status;
}

absl::Status ClientCertificates::Check(absl::string_view leaf,
                                       absl::string_view chain,
                                       uint64_t connection) {
  const Digest shown = Sha256().AddField(leaf).AddField(chain).Finish();
  const SteadyTime now = clock_.Steady();
  Store store;
  {
    MutexLock lock(&mu_);
    Reread();
    const auto known = verdicts_.find(shown);
    if (known != verdicts_.end() && now < known->second.good_until) {
      Keep(connection, known->second);
      return known->second.status;
    }
    X509_STORE_up_ref(store_.get());
    store.reset(store_.get());
  }
  // A stranger's may take milliseconds: nobody waits for them.
  const absl::Status verdict = Verify(store.get(), leaf, chain, clock_.Now());
  ERR_clear_error();
  MutexLock lock(&mu_);
  if (store != store_) return verdict;  // of a file that was replaced meanwhile
  if (verdicts_.size() >= kMostVerdicts) verdicts_.clear();
  const Verdict& kept = verdicts_[shown] = {verdict, After(now, kVerdictTime)};
  Keep(connection, kept);
  return verdict;
}

}  // namespace kiln

#include "tests/support/test_ca.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

void AddExtension(X509* certificate, int kind, const std::string& value) {
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
  EXPECT_NE(extension, nullptr) << value;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

template <typename Write>
void Replace(const std::string& path, Write write) {
  const std::string fresh = absl::StrCat(path, ".new");
  FILE* file = fopen(fresh.c_str(), "we");
  ASSERT_NE(file, nullptr) << fresh;
  chmod(fresh.c_str(), 0600);
  EXPECT_EQ(write(file), 1);
  fclose(file);
  std::filesystem::rename(fresh, path);
}

// What `read` gives of a PEM file.
template <typename T>
T* ReadPem(const std::string& path,
           T* (*read)(FILE*, T**, pem_password_cb*, void*)) {
  FILE* file = fopen(path.c_str(), "re");
  EXPECT_NE(file, nullptr) << path;
  if (file == nullptr) return nullptr;
  T* object = read(file, nullptr, nullptr, nullptr);
  EXPECT_NE(object, nullptr) << path;
  fclose(file);
  return object;
}

}  // namespace

TestCa::TestCa(const std::string& folder, const std::string& name)
    : TestCa(folder, name, Key(EVP_EC_gen("P-256")), nullptr) {
  certificate_ = Sign(name, key_.get(), absl::Hours(24), /*is_ca=*/true);
  Replace(file_,
          [this](FILE* f) { return PEM_write_X509(f, certificate_.get()); });
}

TestCa::TestCa(const std::string& folder, const std::string& name,
               const Files& signer)
    : TestCa(folder, name, Key(ReadPem(signer.key, PEM_read_PrivateKey)),
             Certificate(ReadPem(signer.certificate, PEM_read_X509))) {}

TestCa::TestCa(const std::string& folder, const std::string& name, Key key,
               Certificate certificate)
    : folder_(folder),
      name_(name),
      file_(absl::StrCat(folder, "/", name, ".crt")),
      key_(std::move(key)),
      certificate_(std::move(certificate)) {}

TestCa::Certificate TestCa::Sign(const std::string& name, EVP_PKEY* subject,
                                 absl::Duration life, bool is_ca,
                                 const std::string& usage) {
  Certificate made(X509_new());
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial_);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -7200);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), absl::ToInt64Seconds(life));
  X509_set_pubkey(made.get(), subject);
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
      reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(
      made.get(),
      X509_get_subject_name(certificate_ == nullptr ? made.get()
                                                    : certificate_.get()));
  if (is_ca) {
    AddExtension(made.get(), NID_basic_constraints, "critical,CA:TRUE");
    AddExtension(made.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  } else {
    const bool is_address =
        name.find_first_not_of("0123456789.") == std::string::npos;
    AddExtension(made.get(), NID_subject_alt_name,
                 absl::StrCat(is_address ? "IP:" : "DNS:", name,
                              ",DNS:localhost,IP:127.0.0.1"));
  }
  if (!usage.empty()) AddExtension(made.get(), NID_ext_key_usage, usage);
  EXPECT_GT(X509_sign(made.get(), key_.get(), EVP_sha256()), 0);
  return made;
}

TestCa::Files TestCa::Issue(const std::string& name, const std::string& file,
                            absl::Duration life, const std::string& usage) {
  const Key key(EVP_EC_gen("P-256"));
  return Write(file, key.get(),
               Sign(name, key.get(), life, /*is_ca=*/false, usage).get());
}

TestCa::Files TestCa::IssueWeak(const std::string& name,
                                const std::string& file) {
  const Key key(EVP_RSA_gen(1024));
  return Write(file, key.get(),
               Sign(name, key.get(), absl::Hours(1), /*is_ca=*/false).get());
}

TestCa TestCa::Intermediate(const std::string& name) {
  Key key(EVP_EC_gen("P-256"));
  Certificate made = Sign(name, key.get(), absl::Hours(24), /*is_ca=*/true);
  Write(name, key.get(), made.get());
  return TestCa(folder_, name, std::move(key), std::move(made));
}

TestCa::Files TestCa::Write(const std::string& file, EVP_PKEY* key,
                            X509* certificate) const {
  const Files files = {absl::StrCat(folder_, "/", file, ".crt"),
                       absl::StrCat(folder_, "/", file, ".key")};
  Replace(files.key, [&](FILE* f) {
    return PEM_write_PrivateKey(f, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  Replace(files.certificate,
          [&](FILE* f) { return PEM_write_X509(f, certificate); });
  return files;
}

void TestCa::Revoke(const Files& files) {
  const Certificate gone(ReadPem(files.certificate, PEM_read_X509));
  revoked_.push_back(ASN1_INTEGER_get(X509_get0_serialNumber(gone.get())));
  X509_CRL* list = X509_CRL_new();
  X509_CRL_set_version(list, X509_CRL_VERSION_2);
  X509_CRL_set_issuer_name(list, X509_get_subject_name(certificate_.get()));
  ASN1_TIME* time = ASN1_TIME_new();
  X509_gmtime_adj(time, -60);
  X509_CRL_set1_lastUpdate(list, time);
  for (const int64_t serial : revoked_) {
    X509_REVOKED* row = X509_REVOKED_new();
    ASN1_INTEGER* number = ASN1_INTEGER_new();
    ASN1_INTEGER_set_int64(number, serial);
    X509_REVOKED_set_serialNumber(row, number);
    X509_REVOKED_set_revocationDate(row, time);
    X509_CRL_add0_revoked(list, row);
    ASN1_INTEGER_free(number);
  }
  X509_gmtime_adj(time, 3600);
  X509_CRL_set1_nextUpdate(list, time);
  ASN1_TIME_free(time);
  X509_CRL_sort(list);
  EXPECT_GT(X509_CRL_sign(list, key_.get(), EVP_sha256()), 0);
  Replace(file_, [&](FILE* f) {
    return PEM_write_X509(f, certificate_.get()) == 1 &&
           PEM_write_X509_CRL(f, list) == 1;
  });
  X509_CRL_free(list);
}

}  // namespace kiln

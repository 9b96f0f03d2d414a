#include "tests/support/test_ca.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>

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

}  // namespace

TestCa::TestCa(const std::string& folder, const std::string& name)
    : folder_(folder),
      name_(name),
      file_(absl::StrCat(folder, "/", name, ".crt")),
      key_(EVP_EC_gen("P-256")) {
  certificate_ = Sign(name, key_.get(), absl::Hours(24), /*is_ca=*/true);
  Replace(file_,
          [this](FILE* f) { return PEM_write_X509(f, certificate_.get()); });
}

TestCa::Certificate TestCa::Sign(const std::string& name, EVP_PKEY* subject,
                                 absl::Duration life, bool is_ca) {
  Certificate made(X509_new());
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial_);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -7200);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), absl::ToInt64Seconds(life));
  X509_set_pubkey(made.get(), subject);
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
      reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(made.get(),
                       is_ca ? X509_get_subject_name(made.get())
                             : X509_get_subject_name(certificate_.get()));
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
  EXPECT_GT(X509_sign(made.get(), key_.get(), EVP_sha256()), 0);
  return made;
}

TestCa::Files TestCa::Issue(const std::string& name, const std::string& file,
                            absl::Duration life) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate made = Sign(name, key.get(), life, /*is_ca=*/false);
  const Files files = {absl::StrCat(folder_, "/", file, ".crt"),
                       absl::StrCat(folder_, "/", file, ".key")};
  Replace(files.key, [&](FILE* f) {
    return PEM_write_PrivateKey(f, key.get(), nullptr, nullptr, 0, nullptr,
                                nullptr);
  });
  Replace(files.certificate,
          [&](FILE* f) { return PEM_write_X509(f, made.get()); });
  return files;
}

}  // namespace kiln

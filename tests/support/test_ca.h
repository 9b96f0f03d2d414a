#ifndef KILN_TESTS_SUPPORT_TEST_CA_H_
#define KILN_TESTS_SUPPORT_TEST_CA_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace kiln {

// Signs certificates for tests: PEM files in a folder.
class TestCa {
 public:
  struct Files {
    std::string certificate;
    std::string key;
  };

  // Writes the CA's own certificate to FOLDER/NAME.crt.
  TestCa(const std::string& folder, const std::string& name);
  // Signs with a certificate that may be no CA's.
  TestCa(const std::string& folder, const std::string& name,
         const Files& signer);

  const std::string& file() const { return file_; }

  // A certificate for `name`, a host or its IPv4 address, which is also good for 127.0.0.1 and localhost, with
  // its key in FOLDER/FILE.crt and FOLDER/FILE.key; replaced in one step each.
  // `usage`: its extended key usage, "serverAuth"; empty: any.
  Files Issue(const std::string& name, const std::string& file,
              absl::Duration life = absl::Hours(1),
              const std::string& usage = "");
  // The same with an RSA key of 1024 bits.
  Files IssueWeak(const std::string& name, const std::string& file);
  // A CA that this one signed.
  TestCa Intermediate(const std::string& name);

  // From now on the CA's file has a list of its revoked certificates behind its
  // own, with this one; good for an hour.
  void Revoke(const Files& files);

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  TestCa(const std::string& folder, const std::string& name, Key key,
         Certificate certificate);
  Certificate Sign(const std::string& name, EVP_PKEY* subject,
                   absl::Duration life, bool is_ca,
                   const std::string& usage = "");
  Files Write(const std::string& file, EVP_PKEY* key, X509* certificate) const;

  const std::string folder_;
  const std::string name_;
  const std::string file_;
  const Key key_;
  Certificate certificate_;
  int serial_ = 0;
  std::vector<int64_t> revoked_;  // serial numbers
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_TEST_CA_H_

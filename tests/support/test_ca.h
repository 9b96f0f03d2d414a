#ifndef KILN_TESTS_SUPPORT_TEST_CA_H_
#define KILN_TESTS_SUPPORT_TEST_CA_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace kiln {

// Signs certificates for tests: PEM files in a folder.
class TestCa {
 public:
  // Writes the CA's own certificate to FOLDER/NAME.crt.
  TestCa(const std::string& folder, const std::string& name);

  const std::string& file() const { return file_; }

  // A certificate for `name`, a host or its IPv4 address, which is also good for 127.0.0.1 and localhost, with
  // its key in FOLDER/FILE.crt and FOLDER/FILE.key; replaced in one step each.
  struct Files {
    std::string certificate;
    std::string key;
  };
  Files Issue(const std::string& name, const std::string& file,
              absl::Duration life = absl::Hours(1));

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  Certificate Sign(const std::string& name, EVP_PKEY* subject,
                   absl::Duration life, bool is_ca);

  const std::string folder_;
  const std::string name_;
  const std::string file_;
  const Key key_;
  Certificate certificate_;
  int serial_ = 0;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_TEST_CA_H_

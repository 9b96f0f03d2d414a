#include "server/config_files.h"

#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "server/access/client_certificates.h"
#include "server/open_far_store.h"
#include "server/tls_files.h"

namespace kiln {

absl::Status CheckFiles(const Config& config) {
  if (!config.tls_certificate.empty()) {
    RETURN_IF_ERROR(
        Annotate(CheckTlsFiles({.certificate = config.tls_certificate,
                                .key = config.tls_key,
                                .client_ca = config.tls_client_ca}),
                 "TLS"));
  }
  if (!config.tls_client_ca.empty()) {
    const RealClock clock;
    RETURN_IF_ERROR(
        ClientCertificates::Open(config.tls_client_ca, clock).status());
  }
  return OpenFarStore(config).status();
}

}  // namespace kiln

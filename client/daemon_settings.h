#ifndef KILN_CLIENT_DAEMON_SETTINGS_H_
#define KILN_CLIENT_DAEMON_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/daemon_channel.h"
#include "proto/base/signature.h"
#include "proto/compile_service.pb.h"

namespace kiln {

// The settings for daemons from the environment and kiln.toml.
struct DaemonSettings {
  std::vector<DaemonAddress> daemons;  // empty: no daemon is configured
  std::vector<PublicKey> public_keys;  // signers trusted for daemons behind TCP
  std::string cache_namespace;         // empty: the default one
  wire::Urgency urgency = wire::URGENCY_INTERACTIVE;
};

// Reads the environment (KILN_ADDR, KILN_PUBLIC_KEY, KILN_TLS_CA,
// KILN_TLS_CERTIFICATE, KILN_TLS_KEY, KILN_TOKEN_FILE, KILN_NAMESPACE,
// KILN_URGENCY). Settings that are missing there come from kiln.toml: the file that
// KILN_CONFIG names, else $XDG_CONFIG_HOME/kiln/kiln.toml (~/.config), else
// /etc/kiln/kiln.toml. deploy/kiln.example.toml lists every key; client/python's
// settings.py reads the same.
//
// BAD_OPTION, naming the variable or the file: an unknown key or a bad value; a file
// that another user could have written; only TCP addresses, and no public key for them.
// If there are Unix sockets too, such TCP addresses are skipped, and each is logged once
// (`daemon.not_asked`).
absl::StatusOr<DaemonSettings> ReadDaemonSettings();

}  // namespace kiln

#endif  // KILN_CLIENT_DAEMON_SETTINGS_H_

#ifndef KILN_CLIENT_DAEMON_SETTINGS_H_
#define KILN_CLIENT_DAEMON_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/daemon_channel.h"
#include "proto/base/signature.h"
#include "proto/compile_service.pb.h"

namespace kiln {

// What a program was told of daemons from outside.
struct DaemonSettings {
  std::vector<DaemonAddress> daemons;  // none: nothing was told of any
  std::vector<PublicKey> public_keys;  // who may sign for those behind TCP
  std::string cache_namespace;         // empty: the default one
  wire::Urgency urgency = wire::URGENCY_INTERACTIVE;
};

// Reads the environment (KILN_ADDR, KILN_PUBLIC_KEY, KILN_TLS_CA,
// KILN_TLS_CERTIFICATE, KILN_TLS_KEY, KILN_TOKEN_FILE, KILN_NAMESPACE,
// KILN_URGENCY), and what that leaves out from kiln.toml: the file that
// KILN_CONFIG names, else $XDG_CONFIG_HOME/kiln/kiln.toml (~/.config), else
// /etc/kiln/kiln.toml. deploy/kiln.example.toml has every word; client/python's
// settings.py reads the same.
//
// BAD_OPTION, naming the variable or the file: a word or value that is none, a
// file that another user may have written, addresses behind TCP alone without a
// key that may sign for them. Beside sockets such addresses are left out, and told
// of once each in the log (`daemon.not_asked`).
absl::StatusOr<DaemonSettings> ReadDaemonSettings();

}  // namespace kiln

#endif  // KILN_CLIENT_DAEMON_SETTINGS_H_

#ifndef KILN_SERVER_CONFIG_FILES_H_
#define KILN_SERVER_CONFIG_FILES_H_

#include "absl/status/status.h"
#include "server/config.h"

namespace kiln {

// Reads the files that the configuration names, as a start would: certificates,
// keys, CAs and secrets of the network door and of the far tier. Changes nothing.
// The errors are those of the start, naming the file.
absl::Status CheckFiles(const Config& config);

}  // namespace kiln

#endif  // KILN_SERVER_CONFIG_FILES_H_

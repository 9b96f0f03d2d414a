#ifndef KILN_SERVER_CONFIG_TEXT_H_
#define KILN_SERVER_CONFIG_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/config.h"

namespace kiln {

// Sets in `config` what `toml` names. `where` is the file's name, for messages.
//
// BAD_OPTION: no TOML (with line and column), an unknown table or word, a value
// of the wrong type or not a duration ("90s", "5m").
absl::Status ReadConfigText(absl::string_view toml, absl::string_view where,
                            Config& config);

// The same from a file, which `config` names then. BAD_OPTION also when it can't be read, is no regular
// file or has more than 1 MiB.
absl::Status ReadConfigFile(const std::string& path, Config& config);

// The whole configuration as TOML that ReadConfigText takes.
std::string ConfigText(const Config& config);

}  // namespace kiln

#endif  // KILN_SERVER_CONFIG_TEXT_H_

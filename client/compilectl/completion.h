#ifndef KILN_CLIENT_COMPILECTL_COMPLETION_H_
#define KILN_CLIENT_COMPILECTL_COMPLETION_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln {

// A command and its long options, "--older-than" and so on.
using CommandOptions = std::pair<std::string, std::vector<std::string>>;

// A script that completes compilectl's commands, their options and the `common` options
// of all commands. `shell` is "bash" (source the script, or put it in
// /etc/bash_completion.d) or "zsh"; BAD_OPTION for another one.
absl::StatusOr<std::string> CompletionScript(
    const std::string& shell, const std::vector<std::string>& common,
    const std::vector<CommandOptions>& commands);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_COMPLETION_H_

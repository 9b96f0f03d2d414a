#include "client/compilectl/completion.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln {

absl::StatusOr<std::string> CompletionScript(
    const std::string& shell, const std::vector<CommandOptions>& commands) {
  if (shell != "bash" && shell != "zsh") {
    return absl::InvalidArgumentError(
        absl::StrCat("shell ", shell, ": due bash or zsh"));
  }
  std::vector<std::string> names;
  std::string cases;
  for (const auto& [name, options] : commands) {
    names.push_back(name);
    absl::StrAppend(&cases, "    ", name, ") words=\"",
                    absl::StrJoin(options, " "), "\" ;;\n");
  }
  // zsh runs bash's completions once it is told to.
  const std::string head =
      shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : "";
  return absl::StrCat(head,
                      "_compilectl() {\n"
                      "  local words=\"",
                      absl::StrJoin(names, " "),
                      "\"\n"
                      "  case \"${COMP_WORDS[1]}\" in\n",
                      cases,
                      "  esac\n"
                      "  COMPREPLY=($(compgen -W \"$words\" -- "
                      "\"${COMP_WORDS[COMP_CWORD]}\"))\n"
                      "}\n"
                      "complete -F _compilectl compilectl\n");
}

}  // namespace kiln

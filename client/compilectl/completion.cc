#include "client/compilectl/completion.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<std::string> CompletionScript(
    const std::string& shell, const std::vector<std::string>& common,
    const std::vector<CommandOptions>& commands) {
  if (shell != "bash" && shell != "zsh") {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("shell ", shell, ": expected bash or zsh"));
  }
  std::vector<std::string> names;
  std::string cases;
  for (const auto& [name, options] : commands) {
    names.push_back(name);
    absl::StrAppend(&cases, "    ", name, ") words=\"",
                    absl::StrJoin(options, " "), " ",
                    absl::StrJoin(common, " "), "\" ;;\n");
  }
  // zsh runs bash's completions once it is told to.
  const std::string head =
      shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : "";
  return absl::StrCat(head,
                      "_compilectl() {\n"
                      "  local word command= words=\"",
                      absl::StrJoin(names, " "), " ",
                      absl::StrJoin(common, " "),
                      "\"\n"
                      // The command is the first of its words: options of all
                      // commands may stand before it.
                      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
                      "    case \"$word\" in ",
                      absl::StrJoin(names, "|"),
                      ") command=$word; break ;; esac\n"
                      "  done\n"
                      "  case \"$command\" in\n",
                      cases,
                      "  esac\n"
                      "  COMPREPLY=($(compgen -W \"$words\" -- "
                      "\"${COMP_WORDS[COMP_CWORD]}\"))\n"
                      "}\n"
                      "complete -F _compilectl compilectl\n");
}

}  // namespace kiln

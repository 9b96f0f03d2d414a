# Sourced by the demos. say WORDS...: a heading, bold on a terminal and plain elsewhere.
say() {
  if [[ -t 1 ]]; then printf '\n\033[1m== %s\033[0m\n' "$*"; else printf '\n== %s\n' "$*"; fi
}

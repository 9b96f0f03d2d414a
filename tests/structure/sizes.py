"""How long files and functions are."""

import re

MAX_FILE_LINES = 500
USUAL_FILE_LINES = 400  # nine in ten files are no longer
MAX_FUNCTION_LINES = 60
# Of tests and their support: a test's inputs stand in it, as text, and a table
# of cases is read from top to bottom.
MAX_TEST_FUNCTION_LINES = 100

# What opens a block with declarations in it.
CONTAINER = re.compile(r"^(namespace|class|struct|union|extern|inline namespace)\b")
# The parts of a text that are no code, and the newlines in them.
NO_CODE = re.compile(
    r'R"(?P<mark>[^\s()\\]{0,16})\((?s:.*?)\)(?P=mark)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'  # string
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"  # character; not the ' of 1'000
    r"|//[^\n]*"
    r"|/\*(?s:.*?)\*/"
    r"|^[ \t]*\#(?:\\\n|[^\n])*",  # a line of the preprocessor
    re.MULTILINE,
)


def code_of(text):
    """`text` with strings emptied and comments gone; every line stays."""

    def blank(found):
        lines = "\n" * found.group().count("\n")
        return ('""' if found.group()[:1] in ('"', "R") else " ") + lines

    return NO_CODE.sub(blank, text)


def matching(code, opening):
    """Where the brace at `opening` is closed; the end if it is not."""
    depth = 0
    for place in range(opening, len(code)):
        if code[place] == "{":
            depth += 1
        elif code[place] == "}":
            depth -= 1
            if depth == 0:
                return place
    return len(code) - 1


def kind_of(declaration):
    """What a brace after `declaration` opens: "container", "function" or "value"."""
    words = re.sub(r"^(template\s*<[^{}]*?>\s*(?=\w)|\[\[[^]]*\]\]\s*)+", "", declaration)
    if CONTAINER.match(words) and not words.rstrip().endswith(")"):
        return "container"
    if words.startswith("enum") or "(" not in words:
        return "value"
    outside = re.sub(r"operator\s*[^\s\w(]+", "operator", words)
    while re.search(r"\([^()]*\)", outside):
        outside = re.sub(r"\([^()]*\)", "", outside)
    if "=" in outside:
        return "value"
    # `Type(...) : a_(a), b_{b} {`: the brace after a member's name is its value.
    if re.search(r"[^:]:[^:]", outside) and re.search(r"[\w>]\s*$", words):
        return "value"
    return "function"


def functions(text):
    """[(first line, lines)] of all functions, inside of classes too.

    Reads C++ as clang-format writes it. A function inside of a function is a
    part of it.
    """
    code = code_of(text)
    found = []
    start = place = 0  # of the declaration; of what is read
    parentheses = 0
    while place < len(code):
        letter = code[place]
        if letter in "()":
            parentheses += 1 if letter == "(" else -1
        elif letter == "{" and parentheses > 0:
            place = matching(code, place)
        elif letter == "{":
            kind = kind_of(code[start:place].strip())
            if kind != "container":
                end = matching(code, place)
                if kind == "function":
                    begin = start + len(code[start:]) - len(code[start:].lstrip())
                    first = code.count("\n", 0, begin) + 1
                    found.append((first, code.count("\n", begin, end) + 1))
                    start = end + 1
                place = end
            else:
                start = place + 1
        elif letter in ";}" and parentheses == 0:
            start = place + 1
        elif letter == ":" and re.fullmatch(
            r"\s*(public|private|protected)\s*", code[start:place]
        ):
            start = place + 1
        place += 1
    return found


def long_functions(text, most):
    """[(first line, lines)] of the functions of more than `most` lines."""
    return [found for found in functions(text) if found[1] > most]

"""How long files and functions are."""

import re

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
USUAL_FILE_LINES = 400  # nine in ten files are no longer

# What opens a block at the margin and is no function.
NOT_A_FUNCTION = re.compile(
    r"^(namespace|class|struct|enum|union|extern|template\s*<[^>]*>\s*(class|struct))\b"
)
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)


def long_functions(text):
    """[(first line, lines)] of functions that are too long.

    Reads clang-format's output: a function at namespace level ends with a "}"
    at the margin. Functions inside of a class are not seen.
    """
    # The text of a raw string is no code: its lines stay, empty.
    text = RAW_STRING.sub(lambda raw: '""' + "\n" * raw.group().count("\n"), text)
    found = []
    begin = None  # number of the line where a declaration at the margin began
    opened = False
    declaration = ""
    for number, line in enumerate(text.split("\n"), 1):
        at_margin = line[:1] not in ("", " ", "}", "#", "/", ")")
        if begin is None and at_margin:
            begin, opened, declaration = number, False, ""
        if begin is None:
            continue
        if not opened:
            declaration += line + " "
            if line.rstrip().endswith("{"):
                opened = True
            elif line.rstrip().endswith((";", ":")):
                begin = None
            continue
        if line.startswith("}"):
            length = number - begin + 1
            is_function = (
                not NOT_A_FUNCTION.match(declaration)
                and "(" in declaration
                and "= {" not in declaration
                and line.rstrip() == "}"
            )
            if is_function and length > MAX_FUNCTION_LINES:
                found.append((begin, length))
            begin = None
        elif NOT_A_FUNCTION.match(declaration) and declaration.startswith(
            ("namespace", "extern")
        ):
            # The insides of a namespace are at the margin too.
            begin, opened, declaration = None, False, ""
            if line[:1] not in ("", " ", "}", "#", "/", ")"):
                begin, declaration = number, line + " "
                opened = line.rstrip().endswith("{")
                if line.rstrip().endswith((";", ":")):
                    begin = None
    return found

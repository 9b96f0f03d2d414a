"""Which file may include which: STYLE's rooms and the compiler's floors."""

import ast
import re

# Room -> rooms it may include beside itself.
ROOMS = {
    "proto": set(),
    "cache": {"proto"},
    "compiler": {"proto"},
    "runtime": {"proto"},
    "server": {"proto", "cache"},
    "client": {"proto", "runtime"},
}

# Folder of the compiler -> its floor, from the ground up. The files of
# compiler/ itself stand on top.
FLOORS = {
    "config": 0,
    "sym": 0,
    "graph": 1,
    "pass": 1,
    "toolchain": 1,
    "graph_passes": 2,
    "loop": 2,
    "reference": 2,
    "schedule": 3,
    "codegen": 4,
    "tune": 4,
    "emit": 5,
}
TOP_FLOOR = 6

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
ANY_INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)

# Headers that cost seconds a file -> the files that include them: one, or what reads a file of
# people's in each of two towers.
HEAVY_HEADERS = {
    "spdlog/": ("proto/base/log.cc",),
    "CLI/": ("proto/base/command_line.cc",),
    "toml++/": ("server/config_text.cc", "client/daemon_settings.cc"),
}


def includes_of(text):
    return INCLUDE.findall(text)


def floor_of(path):
    parts = path.split("/")
    return TOP_FLOOR if len(parts) == 2 else FLOORS.get(parts[1])


def arrow_fault(source, target):
    """Why `source` may not depend on `target` (both paths), or None."""
    if source.endswith("_main.cc") and not target.startswith("tests/"):
        return None
    source_room, target_room = source.split("/")[0], target.split("/")[0]
    if source_room not in ROOMS:
        return None
    if target_room == "tests":
        return "only tests may include tests"
    if target_room not in ROOMS:
        return None
    if target_room != source_room and target_room not in ROOMS[source_room]:
        return f"{source_room}/ may not include {target_room}/"
    if source_room == target_room == "compiler":
        return floor_fault(source, target)
    return lobby_fault(source, target)


def floor_fault(source, target):
    above, below = floor_of(source), floor_of(target)
    for path, floor in ((source, above), (target, below)):
        if floor is None:
            return f"{path}: its folder has no floor in tests/structure/arrows.py"
    if below > above:
        return f"floor {above} may not include floor {below}"
    return None


def lobby_fault(source, target):
    """proto/base is below proto/key and the rest of proto/."""
    if source.startswith("proto/base/") and target.startswith(
        ("proto/key/", "proto/corpus/")
    ):
        return "proto/base/ is below the other folders of proto/"
    return None


def circle_in(includes):
    """A circle in {file: [files]} as a list of files, or None."""
    state = {}  # file -> "open" while its walk goes on, then "done"
    for start in sorted(includes):
        if start in state:
            continue
        state[start] = "open"
        path = [start]
        rest = [iter(includes[start])]
        while path:
            step = next((f for f in rest[-1] if f in includes), None)
            if step is None:
                state[path.pop()] = "done"
                rest.pop()
            elif state.get(step) == "open":
                return path[path.index(step) :] + [step]
            elif step not in state:
                state[step] = "open"
                path.append(step)
                rest.append(iter(includes[step]))
    return None


def units_of_c(includes):
    """{unit: [units]} of {file: [files]}: a C file and the header of its name are one unit.

    So that two C files that include each other's headers are a circle too.
    """
    stem = lambda path: path.rpartition(".")[0]
    units = {stem(f): [] for f in includes if f.endswith(".c")}
    for file, targets in includes.items():
        if stem(file) in units:
            units[stem(file)] += [stem(t) for t in targets if stem(t) != stem(file)]
    return units


# `int kiln_f(void);` and `int kiln_f(void) {`, at the start of a line, with lines of arguments.
C_FUNCTION = re.compile(r"^(?!static\b|typedef\b)[A-Za-z][\w *]*?\b(\w+)\([^;{}]*\)\s*([;{])", re.MULTILINE)


def homeless_functions(texts):
    """Functions of {file: text} that another C file defines than the one of their header's name.

    Such a one is an include that cannot be seen: its header says nothing of the file.
    """
    found = {(f, *pair) for f, text in texts.items() for pair in C_FUNCTION.findall(text)}
    declared = {name: f for f, name, end in found if f.endswith(".h") and end == ";"}
    return sorted(
        f"{file} defines {name}, which {declared[name]} declares"
        for file, name, end in found
        if file.endswith(".c") and end == "{" and name in declared
        and file[: -len(".c")] != declared[name][: -len(".h")]
    )


def build_deps(text):
    """[(rule, name, [labels])] of a BUILD file's targets."""
    found = []
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        name, labels = "", []
        for keyword in call.keywords:
            strings = [
                node.value
                for node in ast.walk(keyword.value)
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            ]
            if keyword.arg == "name" and strings:
                name = strings[0]
            elif keyword.arg in ("deps", "data", "srcs", "hdrs"):
                labels += [s for s in strings if s.startswith(("//", ":"))]
        found.append((call.func.id, name, labels))
    return found


def label_fault(folder, rule, name, label, programs):
    """Why the target `name` of `folder` may not need `label`, or None.

    `programs` are the labels of all cc_binary targets: a program is an end, and
    only tests and shell scripts start one.
    """
    if label.startswith(":"):
        label = f"//{folder}{label}"
    package, _, target = label[2:].partition(":")
    if folder.split("/")[0] not in ROOMS:
        return None
    if rule == "cc_library" and f"//{package}:{target}" in programs:
        return "a library may not need a program"
    # A program joins rooms: as a file it is its main.
    file = f"{folder}/{name}{'_main.cc' if rule == 'cc_binary' else '.h'}"
    return arrow_fault(file, f"{package}/{target or 'x'}.h")


def heavy_header_faults(texts):
    """Faults of {file: text} against HEAVY_HEADERS, sorted."""
    return sorted(
        f"{file} includes {header}"
        for file, text in texts.items()
        for header in ANY_INCLUDE.findall(text)
        for prefix, homes in HEAVY_HEADERS.items()
        if header.startswith(prefix) and file not in homes
    )


# "//server:kilnd", "//client/compilectl"; not the end of a URL, not "//...".
SCRIPT_LABEL = re.compile(r"(?<![:\w/*])//([a-z_]+(?:/[a-z_]+)*)(?::([\w.-]+))?(?![\w/.])")


def labels_in_script(text):
    """The targets that a shell script names, as full labels."""
    code = re.sub(r"^\s*#.*", "", text, flags=re.MULTILINE)
    return [
        f"//{package}:{name or package.rsplit('/', 1)[-1]}"
        for package, name in SCRIPT_LABEL.findall(code)
    ]

"""Makes the wheel of client/python from what Bazel has built. Standard library alone.

usage: make_wheel.py BAZEL_BIN FOLDER     (prints the wheel's path)

A wheel is a zip of the tree as it is installed, with METADATA, WHEEL, entry_points.txt and RECORD.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

from private_libraries import gather

NAME = "kiln"
TAG = "cp310-abi3-linux_x86_64"
PROGRAMS = (
    "server/kilnd",
    "compiler/kiln-worker",
    "client/compilectl/compilectl",
    "client/python/libkiln.so",
)
# What they open by name while they run.
OPENED = ("libdnnl.so.2",)

METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: A backend of torch.compile whose compiles are done once, by a daemon, for everybody
Requires-Python: >=3.10
Requires-Dist: tomli>=1.1; python_version < "3.11"
Description-Content-Type: text/markdown

{readme}"""
WHEEL = """\
Wheel-Version: 1.0
Generator: kiln
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY_POINTS = """\
[torch_dynamo_backends]
kiln = kiln.backend:kiln

[console_scripts]
compilectl = kiln.__main__:compilectl
"""


def version_of(root):
    with open(os.path.join(root, "client/version.h"), encoding="utf-8") as file:
        return re.search(r'kVersion\[\] = "([^"]+)"', file.read()).group(1)


def install(source, target):
    shutil.copyfile(source, target)
    os.chmod(target, 0o755)
    subprocess.run(["strip", "--strip-unneeded", target], check=True)


def lay_out(root, built, tree):
    """The tree as it is installed."""
    package = os.path.join(tree, NAME)
    programs = os.path.join(package, "_bin")
    os.makedirs(programs)
    sources = os.path.join(root, "client/python", NAME)
    for file in sorted(os.listdir(sources)):
        if file.endswith((".py", ".pyi")) or file == "py.typed":
            shutil.copyfile(os.path.join(sources, file), os.path.join(package, file))
    install(
        os.path.join(built, "client/python/_native.abi3.so"),
        os.path.join(package, "_native.abi3.so"),
    )
    files = [os.path.join(programs, os.path.basename(program)) for program in PROGRAMS]
    for program, file in zip(PROGRAMS, files):
        install(os.path.join(built, program), file)
    gather(files, OPENED, programs)


def write_info(root, tree):
    info = os.path.join(tree, f"{NAME}-{version_of(root)}.dist-info")
    os.makedirs(info)
    with open(os.path.join(root, "client/python/README.md"), encoding="utf-8") as file:
        readme = file.read()
    texts = {
        "METADATA": METADATA.format(name=NAME, version=version_of(root), readme=readme),
        "WHEEL": WHEEL.format(tag=TAG),
        "entry_points.txt": ENTRY_POINTS,
    }
    for file, text in texts.items():
        with open(os.path.join(info, file), "w", encoding="utf-8") as out:
            out.write(text)
    shutil.copyfile(os.path.join(root, "LICENSE"), os.path.join(info, "LICENSE"))
    return os.path.relpath(info, tree)


def digest(data):
    raw = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def pack(tree, info, wheel):
    """Zips the tree; equal trees give equal bytes."""
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:

        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, data)

        for folder, folders, files in os.walk(tree):
            folders.sort()
            for file in sorted(files):
                path = os.path.join(folder, file)
                name = os.path.relpath(path, tree)
                with open(path, "rb") as source:
                    data = source.read()
                add(name, data, os.stat(path).st_mode & 0o777)
                record.append(f"{name},{digest(data)},{len(data)}\n")
        record.append(f"{info}/RECORD,,\n")
        add(f"{info}/RECORD", "".join(record).encode(), 0o644)


def main(built, folder):
    root = os.getcwd()
    os.makedirs(folder, exist_ok=True)
    wheel = os.path.join(folder, f"{NAME}-{version_of(root)}-{TAG}.whl")
    with tempfile.TemporaryDirectory() as tree:
        lay_out(root, built, tree)
        info = write_info(root, tree)
        pack(tree, info, wheel)
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Lets PyTorch's CUDA build load on a machine without a GPU, and without CUDA's libraries.

usage: cuda_stand_ins.py TORCH_LIB     (the folder torch/lib of an installed PyTorch)

PyPI's PyTorch is linked with a dozen libraries of CUDA: gigabytes to fetch, of which a machine
without a GPU calls nothing but the question how many devices there are. For each of them a library
of its name is put beside PyTorch's own, where the loader looks first. It has every function that
PyTorch asks of it, and each answers 100, CUDA's "no device", but for those that put an error into
words. Needs binutils and gcc.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile

# Of the machine: the C library, the C++ runtime and what moves with them.
_SYSTEM = re.compile(r"^(ld-linux|lib(c|m|pthread|dl|rt|util|stdc\+\+|gcc_s|gomp)[-.])")
# What has no version; all others of PyTorch's undefined symbols say whose they are.
_UNVERSIONED = re.compile(r"^(cu|nccl|nvshmem)[A-Za-z]")
# Opened on a GPU only; it needs the driver.
_LEFT_ALONE = {"libcaffe2_nvrtc.so"}

# What functions of a name do; the first that fits.
_BODIES = (
    (re.compile(r"(Error|Status)(String|Name)|^ncclGetLastError$"), "lea words(%rip), %rax\nret"),
    (re.compile(""), "mov $100, %eax\nret"),
)


def _said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _needed(path):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", _said("readelf", "-dW", path))


def _owners(path):
    """{version: library} of the versions that an ELF file asks for."""
    found, library = {}, None
    for line in _said("readelf", "-VW", path).splitlines():
        file = re.search(r" File: (\S+)", line)
        name = re.search(r" Name: (\S+)", line)
        if file:
            library = file.group(1)
        elif name and library:
            found[name.group(1)] = library
    return found


def wanted(folder):
    """{library: {version or "": names}} that the files of `folder` need and do not have."""
    files = [f for f in sorted(os.listdir(folder)) if ".so" in f and f not in _LEFT_ALONE]
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    unversioned = set()
    for file in files:
        path = os.path.join(folder, file)
        if not os.path.isfile(path):
            continue
        for library in _needed(path):
            if library not in files and not _SYSTEM.match(library):
                found[library]  # needed, whatever symbols it is asked for
        owners = _owners(path)
        for line in _said("nm", "-D", "--undefined-only", path).splitlines():
            name, _, version = line.split()[-1].partition("@")
            library = owners.get(version.strip("@"))
            if library in found:
                found[library][version.strip("@")].add(name)
            elif not version and _UNVERSIONED.match(name):
                unversioned.add(name)
    if found:
        found[min(found)][""] |= unversioned  # whose they are, nobody asks
    return found


def _assembly(names):
    """Functions of these names; those of one body are one function."""
    lines = ['.section .note.GNU-stack,"",@progbits', ".text"]
    left = set(names)
    for pattern, body in _BODIES:
        alike = sorted(name for name in left if pattern.search(name))
        left -= set(alike)
        lines += [f".globl {name}\n.type {name},@function\n{name}:" for name in alike]
        lines.append(body)
    return "\n".join([*lines, 'words: .asciz "CUDA: a stand-in without a device"', ""])


def _write(library, versions, path):
    """A shared library that has these names under these versions."""
    with tempfile.TemporaryDirectory() as work:
        source, script = os.path.join(work, "all.s"), os.path.join(work, "versions")
        with open(source, "w", encoding="utf-8") as out:
            out.write(_assembly(set().union(*versions.values())))
        command = ["gcc", "-shared", "-nostdlib", "-o", path, source, f"-Wl,-soname,{library}"]
        named = {version: names for version, names in versions.items() if version}
        if named:
            with open(script, "w", encoding="utf-8") as out:
                for version, names in named.items():
                    out.write(f"{version} {{ global: {'; '.join(sorted(names))}; }};\n")
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


def main(folder):
    libraries = wanted(folder)
    for library, versions in sorted(libraries.items()):
        _write(library, versions, os.path.join(folder, library))
    print(f"{len(libraries)} stand-ins for CUDA's libraries in {folder}", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit(__doc__)
    main(sys.argv[1])

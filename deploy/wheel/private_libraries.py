"""Gathers the shared libraries of programs into a folder, under names of their own.

A library is known in a process by its SONAME: one that is loaded already serves whoever asks for
that name, whatever its version. So each library that travels with us gets a name that nobody else
asks for: "libgrpc.so.29" becomes "klngrpc.so.29". The names are of equal length, and are written
over the old ones in the string tables of all files: nothing else of a file changes.
"""

import os
import re
import shutil
import struct
import subprocess

# The C library and what moves with it is the machine's, and so is the C++ runtime: a process has
# one, since exceptions and type names cross it.
SYSTEM = re.compile(
    r"^(ld-linux|libc|libm|libpthread|libdl|librt|libresolv|libutil|libanl|libnss_|"
    r"libstdc\+\+|libgcc_s)[-.]"
)

_SHT_DYNAMIC = 6
_DT_NEEDED, _DT_SONAME, _DT_STRTAB = 1, 14, 5
_SHT_VERNEED = 0x6FFFFFFE


def libraries_of(files):
    """{name: path} of the libraries that `files` load, without the system's own."""
    out = subprocess.run(["ldd", *files], check=True, capture_output=True, text=True).stdout
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", out, re.MULTILINE))
    return {name: path for name, path in sorted(found.items()) if not SYSTEM.match(name)}


def private_name(name):
    """ "libx.so.1" -> "klnx.so.1"."""
    return "kln" + name[3:] if name.startswith("lib") else name


def rename_needed(path, names):
    """Writes names[old] over each `old` that the ELF file at `path` has or needs."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    for offset in sorted(_name_offsets(data)):
        end = data.index(0, offset)
        old = data[offset:end].decode()
        new = names.get(old, old)
        assert len(new) == len(old), (old, new)
        data[offset:end] = new.encode()
    with open(path, "wb") as file:
        file.write(data)


def _sections(data):
    """[(type, offset, size, link)] of a 64-bit little-endian ELF file."""
    assert data[:6] == b"\x7fELF\x02\x01", "expected a 64-bit little-endian ELF file"
    (table,) = struct.unpack_from("<Q", data, 0x28)
    width, count = struct.unpack_from("<HH", data, 0x3A)
    found = []
    for i in range(count):
        kind, _, _, offset, size, link = struct.unpack_from("<IQQQQI", data, table + i * width + 4)
        found.append((kind, offset, size, link))
    return found


def _name_offsets(data):
    """Where in the file the names of libraries stand: SONAME, NEEDED, and of versions."""
    sections = _sections(data)
    found = set()
    for kind, offset, size, link in sections:
        strings = sections[link][1] if link < len(sections) else 0
        if kind == _SHT_DYNAMIC:
            for place in range(offset, offset + size, 16):
                tag, value = struct.unpack_from("<QQ", data, place)
                if tag in (_DT_NEEDED, _DT_SONAME):
                    found.add(strings + value)
        elif kind == _SHT_VERNEED:
            place, step = offset, 1
            while step:
                _, _, file, _, step = struct.unpack_from("<HHIII", data, place)
                found.add(strings + file)
                place += step
    return found


def gather(files, opened, folder):
    """Copies what `files` load into `folder`, stripped, and renames it there and in `files`.

    `opened`: names of libraries that the files open by themselves while they run. Each is served
    by an empty library of its name, which needs the renamed one: the loader forgets who opened a
    library when it looks for those that it needs, and the empty one tells it where they are.
    """
    libraries = libraries_of(files)
    for name in opened:
        path = _path_of(name)
        libraries |= libraries_of([path]) | {name: path}
    names = {name: private_name(name) for name in libraries}
    copies = []
    for name, path in libraries.items():
        copy = os.path.join(folder, names[name])
        shutil.copyfile(path, copy)
        os.chmod(copy, 0o755)
        subprocess.run(["strip", "--strip-unneeded", copy], check=True)
        copies.append(copy)
    for file in [*files, *copies]:
        rename_needed(file, names)
    for name in opened:
        _write_door(os.path.join(folder, name), os.path.join(folder, names[name]))


def _path_of(name):
    """Where the loader finds a library of the system."""
    out = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True)
    return re.search(rf"^\s*{re.escape(name)} .* => (/\S+)", out.stdout, re.MULTILINE).group(1)


def _write_door(path, library):
    """An empty library at `path` that needs `library`, which stands beside it."""
    command = ["gcc", "-shared", "-o", path, f"-Wl,-soname,{os.path.basename(path)}"]
    command += ["-Wl,--no-as-needed,--disable-new-dtags,-rpath,$ORIGIN", library]
    command += ["-Wl,--allow-shlib-undefined"]
    subprocess.run(command, check=True)
    subprocess.run(["strip", "--strip-unneeded", path], check=True)

"""Makes programs of the GPU bundle use the libraries of the Python wheel that travels with them.

usage: gpu_bundle_libraries.py WHEEL FOLDER PROGRAM...

The wheel has its libraries under names of its own (wheel/private_libraries.py): each PROGRAM is told
those names. What a PROGRAM needs beside goes into FOLDER, stripped; the C library and the C++
runtime are the machine's.
"""

import os
import shutil
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "wheel"))
from private_libraries import libraries_of, private_name, rename_needed


def main(wheel, folder, *programs):
    with zipfile.ZipFile(wheel) as file:
        inside = {os.path.basename(name) for name in file.namelist()}
    libraries = libraries_of(programs)
    names = {name: private_name(name) for name in libraries if private_name(name) in inside}
    copies = []
    for name in libraries.keys() - names.keys():
        os.makedirs(folder, exist_ok=True)
        copies.append(os.path.join(folder, name))
        shutil.copyfile(libraries[name], copies[-1])
        subprocess.run(["strip", "--strip-unneeded", copies[-1]], check=True)
    for file in [*programs, *copies]:
        rename_needed(file, names)


if __name__ == "__main__":
    main(*sys.argv[1:])

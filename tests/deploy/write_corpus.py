"""Writes a small corpus: one case that is right, one whose stored result is wrong, one of an unknown operator.

usage: write_corpus.py FOLDER
"""

import json
import os
import struct
import sys

META = {"shape": [3], "stride": [1], "dtype": "float32", "device": "cpu", "storage_offset": 0}


def case(name, op):
    value = {k: META[k] for k in ("shape", "stride", "storage_offset", "dtype")}
    return {
        "format": 1,
        "name": name,
        "kind": "op",
        "origin": "by hand",
        "torch": "2.11.0",
        "nodes": [
            {"name": "x", "op": "placeholder", "target": "x", "args": [], "kwargs": {}, "meta": META},
            {"name": "y", "op": "call_function", "target": op, "args": [{"node": "x"}], "kwargs": {}, "meta": META},
            {"name": "output", "op": "output", "target": "output", "args": [[{"node": "y"}]], "kwargs": {}, "meta": None},
        ],
        "constants": {},
        "inputs": [{"key": "in", **value}],
        "outputs": [{"key": "out", **value}],
        "mutated": {},
        "tolerance": {"rtol": 1e-6, "atol": [1e-6]},
        "data": name + ".safetensors",
    }


def safetensors(tensors):
    """The bytes of a file of float32 vectors: length of the head, head, data."""
    head, data = {}, b""
    for key, values in tensors.items():
        begin = len(data)
        data += struct.pack(f"<{len(values)}f", *values)
        head[key] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [begin, len(data)]}
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def main():
    folder = sys.argv[1]
    for name, op, result in (
        ("right", "aten.relu.default", [0, 2, 4]),
        ("wrong", "aten.relu.default", [0, 3, 4]),
        ("unknown", "aten.kiln_knows_no_such.default", [0, 2, 4]),
    ):
        with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf-8") as file:
            file.write(json.dumps(case(name, op)) + "\n")
        with open(os.path.join(folder, name + ".safetensors"), "wb") as file:
            file.write(safetensors({"in": [-1, 2, 4], "out": result}))


if __name__ == "__main__":
    main()

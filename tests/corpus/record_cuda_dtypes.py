#!/usr/bin/env python3
"""Writes which results of operator samples have another dtype on CUDA than the CPU's, which the corpus records.

usage: record_cuda_dtypes.py FOLDER... > cuda_dtypes.json

FOLDER: plain NAME.jsonl files (kiln-corpus --unpack makes them). Runs each sample's graph with PyTorch on its GPU; without
one, on fake CUDA tensors, which have CUDA's dtypes and no values, so that what PyTorch computes is not seen. The first line
of the answer says which. kiln-corpus reads it by --cuda-dtypes.
"""

import contextlib
import json
import sys
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from peer_inductor import Rebuilder, load_data, make_input


def cases(folder):
    """Each case with its tensors."""
    for path in sorted(Path(folder).glob("*.jsonl")):
        data = load_data(path.with_suffix(".safetensors"))
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line), data


def results(case, data, gpu):
    """What PyTorch gives for the sample on CUDA: tensors, or fake ones, whose inputs need no values."""
    mode = contextlib.nullcontext() if gpu else FakeTensorMode(allow_non_fake_inputs=True)
    values = data if gpu else None
    with mode:
        inputs = [make_input(spec, values, "cuda") for spec in case["inputs"]]
        constants = {
            name: make_input(spec, values, "cuda") for name, spec in case["constants"].items()
        }
        return Rebuilder(case, constants, {}, "cuda").build()(*inputs)


def differences(case, found):
    """{number of the result: CUDA's dtype} where it is not the recorded one."""
    out = {}
    for number, (due, got) in enumerate(zip(case["outputs"], found)):
        if not isinstance(got, torch.Tensor) or "dtype" not in due:
            continue
        dtype = str(got.dtype).removeprefix("torch.")
        if dtype != due["dtype"]:
            out[str(number)] = dtype
    return out


def main():
    gpu = torch.cuda.is_available()
    source = torch.cuda.get_device_name(0) if gpu else "fake CUDA tensors"
    found = {"recorded": f"torch {torch.__version__.partition('+')[0]}, {source}", "cases": {}}
    refused = 0
    for folder in sys.argv[1:]:
        for case, data in cases(folder):
            try:
                other = differences(case, results(case, data, gpu))
            except Exception as error:  # a dtype or operator that CUDA does not have
                refused += 1
                print(f"{case['name']}: {type(error).__name__}: {str(error)[:80]}", file=sys.stderr)
                continue
            if other:
                found["cases"][case["name"]] = other
    print(f"{refused} samples do not run on CUDA", file=sys.stderr)
    rows = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(found["cases"].items())]
    print(f'{{"recorded": {json.dumps(found["recorded"])}, "cases": {{\n' + ",\n".join(rows) + "\n}}")


if __name__ == "__main__":
    main()

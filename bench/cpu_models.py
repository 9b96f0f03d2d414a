"""Inference of models on the CPU, Inductor's C++ and Kiln in turns.

usage: ./kiln bench cpu_models [--models REGEX] [--backends eager,inductor,kiln] [--json FILE]

BERT-base on 8 rows of 128 words, ResNet-50 on 4 images of 224 x 224, a linear of 1024 rows with its
gelu and a 3 x 3 convolution of 4 images with its relu, all in float32, and a linear of 1024 rows and
a 3 x 3 convolution of 4 images in float64, with random weights. They are inputs of the compiled
graph for Inductor and Kiln alike: neither may keep them in a layout of its own. A figure is the wall
time of a whole compiled call under torch.no_grad in milliseconds on two threads: the median of 15
calls after 4 warm-ups. The backends are called in turns, so that other work on the machine slows all
of them alike.

I/K is Inductor's time over Kiln's: above 1 Kiln is faster. Results are compared with eager mode's.
The exit status is 1 when a result of Kiln is wrong or when Kiln fails on a model.
"""

from __future__ import annotations

import argparse
import os
import re
import sys

from cpu_kernels import BACKENDS, ratio
from environment import chosen_backends, command_line, machine, require_pattern

TOLERANCE = 1e-4  # of the relative error, in the norm of a whole result


def measure_model(name: str, make, order: list[str], clock, tiny: bool) -> dict:
    """A row: the figures of each backend, whose calls are timed in turns."""
    import torch

    from kernel_timing import relative_error, words_of

    torch._dynamo.reset()
    torch.manual_seed(0)
    model, inputs = make(tiny)
    expected = model(*inputs)
    row: dict = {"name": name, "backends": {}}
    calls = {}
    for backend in order:
        called = model if backend == "eager" else torch.compile(model, backend=backend)
        try:
            error = relative_error(called(*inputs), expected)
        except Exception as failure:  # whatever it is, the other models go on
            row["backends"][backend] = {"error": words_of(failure)}
            continue
        wrong = "" if error <= TOLERANCE else f"relative error {error:.1e}, allowed {TOLERANCE:.0e}"
        row["backends"][backend] = {"errors": [error], "wrong": wrong}
        calls[backend] = (lambda: None, lambda _, called=called: called(*inputs))
    for backend, ms in clock.measure_in_turns(calls).items():
        row["backends"][backend]["ms"] = ms
    return row


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="", metavar="REGEX", help="those whose name matches")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="which to measure")
    parser.add_argument("--repeats", type=int, default=15, help="calls whose median counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", metavar="FILE", help="write all figures, after each model")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for tests")
    options = parser.parse_args()
    options.backends = chosen_backends(parser, options.backends, BACKENDS)
    require_pattern(parser, "--models", options.models)
    return options


def main() -> int:
    options = parse()
    command = command_line()
    os.environ.setdefault("KILN_STRICT", "1")  # a graph in eager mode is no figure of Kiln's
    import torch

    from cpu_kernels import print_row
    from inference_models import MODELS
    from kernel_timing import CpuClock, failures, write_json

    torch.set_num_threads(options.threads)
    clock = CpuClock(options.repeats)
    facts = {"command": command, **machine("cpu")}
    print("; ".join(f"{name} {value}" for name, value in facts.items()))
    print(f"{'model':30} {'eager':>9} {'inductor':>9} {'kiln':>9} {'I/K':>6}", flush=True)
    rows: list[dict] = []
    with torch.no_grad():
        for name, make in MODELS.items():
            if not re.search(options.models, name):
                continue
            rows.append(measure_model(name, make, options.backends, clock, options.tiny))
            print_row(rows[-1])
            write_json(options.json, facts, rows)
            clock.release()
    slower = [row["name"] for row in rows if ratio(row) < 1]
    print(f"slower than Inductor's: {', '.join(slower) or 'none'}")
    wrong = failures(rows)
    print(f"wrong or failed with Kiln: {', '.join(map(str, wrong)) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What a compiled call costs on the host: Kiln, Inductor and a backend that does nothing.

usage: ./kiln bench torch_call [--device cpu|cuda] [--seconds N] [--json]

Three cases: one pointwise kernel; 200 parameters under no_grad; 200 parameters with grad. A case's
three callables are called in turns, a hundred calls each, so that what the machine does beside hits
all alike; the figure is the median of the turns, in microseconds a call. "whole" is a call from
Python, guards included. "own" is Kiln's part of it: from the entry of the callable that AOTAutograd
holds to its return, measured by calling that with its inputs; the list of these is made before, and
results are let go after, as PyTorch and the program do. On CUDA nothing waits for the device.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

# {case: (whole call / Inductor's at most, own part in us at most)}; meant for CUDA.
BARS = {"one_kernel": (0.8, 8.0), "200_no_grad": (0.8, 20.0), "200_grad": (1.0, 20.0)}
CALLS = 100
FEW = 10  # lists of inputs that a cache holds


def make_function(case, device):
    """One kernel of x; or a module that adds 200 parameters to x, each a kernel's input. Each has
    code of its own, since Dynamo keeps what it compiled with the code, and looks through all."""
    import torch

    lines = ["def one(x):", "    return torch.relu(x + 1) * 2"]
    if case != "one_kernel":
        rows = [f"        self.p{i} = Parameter(torch.linspace(0, 1, 16))" for i in range(200)]
        sums = [f"        x = x + self.p{i}" for i in range(200)]
        lines = ["class Many(torch.nn.Module):", "    def __init__(self):"]
        lines += ["        super().__init__()", *rows, "    def forward(self, x):", *sums]
        lines.append("        return torch.relu(x) * 2")
    names = {"torch": torch, "Parameter": torch.nn.Parameter, "__name__": __name__}
    exec(compile("\n".join(lines), f"<{case} {time.monotonic_ns()}>", "exec"), names)
    return names["one"] if case == "one_kernel" else names["Many"]().to(device)


def do_nothing(module, example_inputs):
    """A backend whose graphs give tensors that nobody filled: what PyTorch itself costs."""
    import torch
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def compile_(graph, _):
        (output,) = (node for node in graph.graph.nodes if node.op == "output")
        metas = [getattr(item, "meta", {}).get("val") for item in output.args[0]]

        def run(*_):
            return [
                torch.empty_strided(m.shape, m.stride(), dtype=m.dtype, device=m.device)
                if isinstance(m, torch.Tensor)
                else m
                for m in metas
            ]

        return make_boxed_func(run)

    return aot_autograd(fw_compiler=compile_)(module, example_inputs)


def own_turn(called, x):
    """Compiles; what takes the time of a turn of Kiln's own part, with the inputs that AOTAutograd
    gives it."""
    from kiln import compiled_graph

    with compiled_graph.recording() as graphs:
        called(x)
    graph = next(g for g in graphs if not g.name.startswith("backward"))
    run, taken = graph.wait(), []

    def spy(args):
        taken.extend(args)
        return run(args)

    graph._run = spy
    called(x)
    graph._run = run

    def turn():
        seconds = 0.0
        for _ in range(CALLS // FEW):
            given, results = [list(taken) for _ in range(FEW)], []
            begin = time.perf_counter()
            for args in given:
                results.append(graph(args))
            seconds += time.perf_counter() - begin
        return 1e6 * seconds / CALLS

    return turn


def whole_turn(called, x):
    """Compiles; what takes the time of a turn of whole calls."""
    called(x)

    def turn():
        begin = time.perf_counter()
        for _ in range(CALLS):
            called(x)
        return 1e6 * (time.perf_counter() - begin) / CALLS

    return turn


def measure(turns, seconds):
    """{name: median us a call} of functions that take the time of a turn each, one after another."""
    seen = {name: [] for name in turns}
    for turn in turns.values():
        turn()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, turn in turns.items():
            seen[name].append(turn())
    return {name: statistics.median(times) for name, times in seen.items()}


def run_case(case, device, seconds):
    """The figures of a case."""
    import torch

    x = torch.linspace(-1, 1, 16, device=device)
    turns = {}
    with torch.set_grad_enabled(case == "200_grad"):
        for name, backend in (("kiln", "kiln"), ("inductor", "inductor"), ("nothing", do_nothing)):
            called = torch.compile(make_function(case, device), backend=backend)
            if name == "kiln":
                turns["own"] = own_turn(called, x)
            turns[name] = whole_turn(called, x)
        figures = measure(turns, seconds)
    figures["ratio"] = figures["kiln"] / figures["inductor"]
    return figures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seconds", type=float, default=10, help="of each case")
    parser.add_argument("--json", action="store_true", help="a line of JSON a case")
    options = parser.parse_args()
    os.environ["KILN_STRICT"] = "1"
    with tempfile.TemporaryDirectory(prefix="kiln-peer-") as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        import torch

        if options.device == "cuda" and not torch.cuda.is_available():
            sys.exit("kiln bench torch_call: --device cuda: PyTorch finds no GPU here")
        if not options.json:
            print(f"torch {torch.__version__}, {options.device}; us a call, medians")
            print("| case | Kiln | Inductor | nothing | Kiln / Inductor | bar | own part | bar |")
            print("|---|---|---|---|---|---|---|---|")
        for case, (share, own) in BARS.items():
            found = run_case(case, options.device, options.seconds)
            if options.json:
                print(json.dumps({"case": case, "device": options.device, **found}))
                continue
            times = " | ".join(f"{found[name]:.1f}" for name in ("kiln", "inductor", "nothing"))
            judged = f"{found['ratio']:.2f} | {share} | {found['own']:.1f} | {own}"
            print(f"| {case} | {times} | {judged} |", flush=True)


if __name__ == "__main__":
    main()

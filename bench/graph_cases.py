"""The processes of graphs.py. One prepares a case; a line on its standard input has it compile and
print what it found once, each later line has it measure and print that.

usage: graph_cases.py CASE BACKEND STEPS
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable

import torch

CALLS = 200


def wait_for_turn() -> None:
    sys.stdin.readline()


def compiled(function: Callable, backend: str) -> Callable:
    if backend == "kiln":
        import kiln  # noqa: F401
    return torch.compile(function, backend=backend, mode="reduce-overhead")


def recordings_and_skips(backend: str) -> dict[str, int]:
    if backend == "kiln":
        import kiln

        tree = kiln.graph_tree_state()
        return {
            "recordings": 0 if tree is None else tree["recordings"],
            "skips": kiln.counters["cudagraph_skips"],
        }
    from torch._dynamo.utils import counters
    from torch._inductor import cudagraph_trees

    tree = cudagraph_trees.get_container(0).tree_manager
    return {
        "recordings": 0 if tree is None else tree.new_graph_id().id,
        "skips": counters["inductor"]["cudagraph_skips"],
    }


def milliseconds(step: Callable[[], object], times: int = 1) -> float:
    """Of a step, where nothing waits between steps."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        torch.compiler.cudagraph_mark_step_begin()
        step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begun) / times


def on_the_gpu(step: Callable[[], object], times: int) -> dict[str, float]:
    """Of a step's kernels and copies: the sum of their times, and the time with at least one."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        milliseconds(step, times)
    on_gpu = [e for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    spans = sorted((e.time_range.start, e.time_range.end) for e in on_gpu)
    total, busy, until = 0.0, 0.0, 0.0
    for begin, end in spans:
        total += end - begin
        busy += max(0.0, end - max(begin, until))
        until = max(until, end)
    return {"kernels_ms": total / 1e3 / times, "busy_ms": busy / 1e3 / times}


def training(name: str, backend: str) -> Callable[[], object]:
    from torch_compile import MODELS

    model, step = MODELS[name]("cuda")
    called = compiled(model, backend)
    return lambda: step(called)


def decoding(rows: int, backend: str) -> Callable[[], object]:
    from decoder import Decoder

    with torch.device("cuda"):
        model = Decoder(rows, hidden=2048, inner=5632, layers=16, heads=16)
        tokens, place = torch.randint(0, 32000, (rows,)), torch.tensor([700])
    called = compiled(model.to(torch.bfloat16).eval(), backend)

    @torch.no_grad()
    def step() -> object:
        return called(tokens, place)

    return step


def step_case(case: str, backend: str, steps: int) -> tuple[dict, Callable[[], dict]]:
    rows = {"decode1": 1, "decode16": 16}
    make = decoding if case in rows else training
    step = make(rows.get(case, case), backend)
    wait_for_turn()
    first, record, *_ = (milliseconds(step) for _ in range(5))
    once = {"first_s": first / 1e3, "record_ms": record, **recordings_and_skips(backend)}

    def measure() -> dict[str, float]:
        milliseconds(step, 3)
        return {"step_ms": milliseconds(step, steps), **on_the_gpu(step, 3)}

    return once, measure


def microseconds(call: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(CALLS):
        call()
    return 1e6 * (time.perf_counter() - begun) / CALLS


def own_part(called: Callable, x: torch.Tensor) -> Callable[[], float]:
    """Microseconds of a call of what AOTAutograd holds, the launch included. The lists of inputs
    are made before."""
    from kiln import compiled_graph

    with compiled_graph.recording() as graphs:
        for _ in range(4):
            called(x)
    (graph,) = graphs
    run, taken = graph._run, []

    def spy(args: list) -> object:
        taken.extend(args)
        return run(args)

    graph._run = spy
    called(x)
    graph._run = run

    def measure() -> float:
        given = iter([list(taken) for _ in range(CALLS)])
        return microseconds(lambda: graph(next(given)))

    return measure


def bare(x: torch.Tensor, layer: torch.nn.Module) -> Callable[[], object]:
    torch.relu(layer(x))  # opens the libraries
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.relu(layer(x))
    return graph.replay


def relu_of(layer: torch.nn.Module, name: str) -> Callable:
    """With code of its own: Dynamo keeps what it compiled with the code, and looks through all."""
    names = {"torch": torch, "layer": layer}
    text = "def call(x):\n    return torch.relu(layer(x))"
    exec(compile(text, f"<{name}>", "exec"), names)
    return names["call"]


@torch.no_grad()
def calls_case(backend: str) -> tuple[dict, Callable[[], dict]]:
    layer = torch.nn.Linear(64, 64, device="cuda")
    static = torch.rand(8, 64, device="cuda")
    torch._dynamo.mark_static_address(static)
    inputs = {"static": static, "copied": torch.rand(8, 64, device="cuda")}
    launch = bare(static, layer)
    called, own = {}, {}
    wait_for_turn()
    for name, x in inputs.items():
        called[name] = compiled(relu_of(layer, name), backend)
        if backend == "kiln":
            own["own_us" if name == "static" else "own_copied_us"] = own_part(called[name], x)
        for _ in range(4):
            called[name](x)

    def measure() -> dict[str, float]:
        with torch.no_grad():
            found = {"bare_us": microseconds(launch)}
            for name, x in inputs.items():
                found[f"{name}_us"] = microseconds(lambda: called[name](x))
            for name, turn in own.items():
                found[name] = turn() - found["bare_us"]
        return found

    return recordings_and_skips(backend), measure


def pool_mib() -> float:
    """Of all private pools."""
    segments = torch.cuda.memory_snapshot()
    private = [s["total_size"] for s in segments if tuple(s["segment_pool_id"]) != (0, 0)]
    return sum(private) / 2**20


def blocks(backend: str) -> list[Callable]:
    """Twenty, each larger than the last: it takes some rows, and gives more."""
    up, down = torch.rand(1024, 4096, device="cuda"), torch.rand(4096, 1024, device="cuda")

    def made(number: int) -> Callable:
        def block(x):
            y = torch.nn.functional.gelu(x @ up / 64) @ down / 64
            return torch.cat((x, y[:256])) + number

        return compiled(block, backend)

    return [made(number) for number in range(20)]


@torch.no_grad()
def path_case(backend: str) -> tuple[dict, Callable[[], dict]]:
    torch._dynamo.config.recompile_limit = 64
    wait_for_turn()
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        chain = blocks(backend)
        start = torch.rand(256, 1024, device="cuda")
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            x = start
            for block in chain:
                x = block(x)
        torch.cuda.synchronize()
        found = {"path_mib": pool_mib(), **recordings_and_skips(backend)}
        last = chain[-1]
        given = torch.rand_like(x)[:-256].clone()
        del x, block, chain
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        found["left_mib"] = pool_mib()
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            last(given)
        found["largest_mib"] = pool_mib() - found["left_mib"]
    return found, lambda: {}


def main() -> None:
    case, backend, steps = sys.argv[1:]
    torch.manual_seed(0)
    if case == "calls":
        once, measure = calls_case(backend)
    elif case == "path":
        once, measure = path_case(backend)
    else:
        once, measure = step_case(case, backend, int(steps))
    print("FIGURES " + json.dumps(once), flush=True)
    for _ in sys.stdin:
        print("FIGURES " + json.dumps(measure()), flush=True)


if __name__ == "__main__":
    main()

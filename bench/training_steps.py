"""Whole training steps on a GPU under eager mode, Inductor and Kiln, without device graphs.

usage: ./kiln bench training_steps [MODEL...] [--two-gpus] [--backends eager,inductor,kiln] [--steps N]

Models: those of torch_compile.py, at their sizes for a GPU. One process a model and backend, on cache folders
of its own, measures after the first steps:

  step    forward and backward; of a model that is only run, its forward
  adamw   the same and an AdamW step: compiled by the backend, in eager mode PyTorch's fused one

With --two-gpus a GPT-2 of 6 layers, 8 x 1024 tokens a GPU, one process a GPU:

  ddp     DistributedDataParallel
  fsdp2   fully_shard of each block and of the whole

Milliseconds: the median of N steps, each waited for, and how long the GPU idles in a step by the profiler (which
has calls take longer: so it is the median step less the time in which a kernel or copy runs). MiB: what the
whole device has in use, libraries and contexts among it; what PyTorch's allocator holds of that; and what of
this was in use at most in a step. Then each figure of Kiln's beside the peer's: of
times the better of eager mode and Inductor, of memory Inductor.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from environment import chosen_backends, command_line, machine, with_caches
from torch_compile import MODELS

BACKENDS = ("eager", "inductor", "kiln")
TWO_GPUS = ("ddp", "fsdp2")
INFERENCE = ("llama",)


def busy_ms(step: Callable[[], object], steps: int) -> float:
    """Milliseconds of a step in which the GPU runs something."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    spans = [
        (e.time_range.start, e.time_range.end)
        for e in profile.events()
        if e.device_type == torch.autograd.DeviceType.CUDA
    ]
    total, until = 0.0, 0.0
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total / steps / 1e3


def figures_of(step: Callable[[], object], steps: int) -> dict[str, float]:
    import torch

    for _ in range(4):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(steps):
        begun = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    free, total = torch.cuda.mem_get_info()
    median = 1e3 * statistics.median(times)
    return {
        "step_ms": median,
        "least_ms": 1e3 * min(times),
        "idle_ms": max(0.0, median - busy_ms(step, 5)),
        "used_mib": (total - free) / 2**20,
        "held_mib": torch.cuda.memory_reserved() / 2**20,
        "peak_mib": torch.cuda.max_memory_allocated() / 2**20,
    }


def compiled(function: object, backend: str) -> object:
    import torch

    if backend == "eager":
        return function
    if backend == "kiln":
        import kiln  # noqa: F401  registers the backend
    return torch.compile(function, backend=backend)


def with_adamw(model, once: Callable[[], object], backend: str) -> Callable[[], object]:
    import torch

    fused = {"fused": True} if backend == "eager" else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, **fused)
    # The steps of torch_compile.py drop the gradients in the end.
    model.zero_grad = lambda set_to_none=True: None

    def update() -> None:
        optimizer.step()

    called = compiled(update, backend)

    def step() -> None:
        once()
        called()
        optimizer.zero_grad(set_to_none=True)

    return step


def child(name: str, backend: str, steps: int) -> dict[str, dict[str, float]]:
    """One model, on one GPU."""
    import torch

    torch.manual_seed(0)
    model, step_of = MODELS[name]("cuda")
    called = compiled(model, backend)
    found = {"step": figures_of(lambda: step_of(called), steps)}
    if name not in INFERENCE:
        step = with_adamw(model, lambda: step_of(called), backend)
        found["adamw"] = figures_of(step, steps)
    return found


def child_of_two(kind: str, backend: str, steps: int) -> dict[str, dict[str, float]]:
    """One of two processes that train together; RANK and the like are set."""
    import torch
    import torch.distributed as dist
    import transformers
    from torch.distributed.fsdp import fully_shard

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.manual_seed(0)
    config = transformers.GPT2Config(use_cache=False, n_layer=6)
    with torch.device("cuda"):
        model = transformers.GPT2LMHeadModel(config).to(torch.bfloat16).train()
    ids = torch.randint(0, config.vocab_size, (8, 1024), device="cuda")
    if kind == "ddp":
        parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    else:
        for block in model.transformer.h:
            fully_shard(block)
        parallel = fully_shard(model)
    called = compiled(parallel, backend)

    def step() -> None:
        called(input_ids=ids, labels=ids).loss.backward()
        parallel.zero_grad(set_to_none=True)

    found = {kind: figures_of(step, steps)}
    dist.barrier()
    dist.destroy_process_group()
    return found


def start(what: str, backend: str, steps: int, ranks: int) -> dict | None:
    """The figures of the processes of a case; None, and words, when one fails."""
    with tempfile.TemporaryDirectory() as folder:
        environment = with_caches(folder)
        # No user's process compiles all that it imports.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531", WORLD_SIZE=str(ranks))
        command = [sys.executable, "-W", "ignore", __file__, "--child", what, backend]
        runs = [
            subprocess.Popen(
                [*command, "--steps", str(steps)],
                env={**environment, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(ranks)
        ]
        outputs = [run.communicate()[0] for run in runs]
    lines = [line for line in outputs[0].splitlines() if line.startswith("FIGURES ")]
    if any(run.returncode for run in runs) or not lines:
        print(f"{what} {backend} FAILED\n" + "\n".join(o[-3000:] for o in outputs), flush=True)
        return None
    return json.loads(lines[-1].removeprefix("FIGURES "))


def report(what: str, found: dict[str, dict]) -> None:
    """Prints the figures of all backends, and Kiln's beside the peer's."""
    for case in next(iter(found.values()), {}):
        for backend, figures in found.items():
            numbers = "  ".join(f"{key} {value:9.2f}" for key, value in figures[case].items())
            print(f"{what:9} {case:6} {backend:9} {numbers}", flush=True)
        peers = {b: f[case] for b, f in found.items() if b != "kiln"}
        if "kiln" not in found or not peers:
            continue
        ours = found["kiln"][case]
        ratio = ours["step_ms"] / min(figures["step_ms"] for figures in peers.values())
        said = f"step / best {ratio:.2f}"
        if "inductor" in peers:
            said += f", memory / inductor {ours['used_mib'] / peers['inductor']['used_mib']:.2f}"
        print(f"{what:9} {case:6} Kiln's {said}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="; ".join(MODELS))
    parser.add_argument("--two-gpus", action="store_true", help="DDP and FSDP2 instead of models")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--child", nargs=2, metavar=("WHAT", "BACKEND"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    import torch

    if options.child:
        what, backend = options.child
        run = child_of_two if what in TWO_GPUS else child
        print("FIGURES " + json.dumps(run(what, backend, options.steps)), flush=True)
        return 0
    for name in options.models:
        if name not in MODELS:
            parser.error(f"no model {name}; there are {', '.join(MODELS)}")
    if options.two_gpus and options.models:
        parser.error("--two-gpus has a model of its own")
    ranks = 2 if options.two_gpus else 1
    if torch.cuda.device_count() < ranks:
        sys.exit(f"kiln bench training_steps: PyTorch finds no {ranks} GPUs here")
    print(f"command {command_line()}; {machine('cuda')}", flush=True)
    failed = False
    for what in TWO_GPUS if options.two_gpus else options.models or MODELS:
        found = {}
        for backend in chosen_backends(parser, options.backends, BACKENDS):
            figures = start(what, backend, options.steps, ranks)
            if figures is None:
                failed = True
            else:
                found[backend] = figures
        report(what, found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""torch.compile of four models: Kiln and Inductor in one run, cold and warm.

usage: ./kiln bench torch_compile [MODEL...] [--device cpu|cuda] [--kinds cold,warm] [--warm-runs N] [--steps N]

Models: gpt2 bert resnet50 llama. On a GPU they are large and all are run; on the CPU (the default where there is no GPU)
they are small, in float32, and gpt2 alone is run unless others are named.

For each model and backend new processes run on one set of cache folders, empty before the first: one "cold",
then three "warm", of which the one of the median first step counts. The backends take turns, also in who goes
first. A process makes the model, runs one eager step (so that libraries are open and memory is there), then times
the import of Kiln, torch.compile and the first step to its end, and the median of later steps. Every figure is
printed with the ratio Kiln / Inductor. Needs torch, transformers and torchvision, and the wheel of Kiln; no
network: weights are random.

Four figures tell what Kiln's service did. A compile lasts from the request to the loaded artifact, and compiles
overlap: compile_wall_s is the time with at least one under way, compile_sum_s their sum, longest_compile_s the
longest without its load, load_sum_s the sum of the loads. Tracing goes on beside compiles, so the first step does
not wait for all of compile_wall_s.

Without compiled bytecode each process also compiles the modules of PyTorch that it imports, which makes first steps
longer. Where PyTorch was installed without, set PYTHONPYCACHEPREFIX to a folder and fill it with python -m
compileall. The first line printed is the command with all variables that the figures depend on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time

from environment import command_line, has_bytecode, machine, with_caches

BACKENDS = ("inductor", "kiln")
# What Kiln's service took of a first step, in seconds.
SERVICE = ("compile_wall_s", "compile_sum_s", "longest_compile_s", "load_sum_s")


def _language_step(model, rows: int, length: int, vocabulary: int):
    import torch

    ids = torch.randint(0, vocabulary, (rows, length), device=model.device)

    def step(called) -> torch.Tensor:
        loss = called(input_ids=ids, labels=ids).loss
        loss.backward()
        model.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def _made(make, device: str):
    """What `make` makes, on the device from the start (a billion random weights take a GPU no time); in
    bfloat16 on a GPU, the CPU's is float32."""
    import torch

    with torch.device(device):
        model = make()
    return model.to(torch.bfloat16 if device == "cuda" else torch.float32)


def gpt2(device: str):
    import transformers

    small = dict(n_embd=64, n_layer=2, n_head=4, vocab_size=512, n_positions=128)
    config = transformers.GPT2Config(use_cache=False, **({} if device == "cuda" else small))
    model = _made(lambda: transformers.GPT2LMHeadModel(config), device).train()
    rows, length = (8, 1024) if device == "cuda" else (4, 64)
    return model, _language_step(model, rows, length, config.vocab_size)


def bert(device: str):
    import transformers

    config = transformers.BertConfig(**({} if device == "cuda" else _SMALL))
    model = _made(lambda: transformers.BertForMaskedLM(config), device).train()
    rows, length = (16, 512) if device == "cuda" else (4, 64)
    return model, _language_step(model, rows, length, config.vocab_size)


def resnet50(device: str):
    import torch
    import torchvision

    with torch.device(device):
        model = torchvision.models.resnet50().train()
    rows, edge = (64, 224) if device == "cuda" else (2, 64)
    images = torch.randn(rows, 3, edge, edge, device=device)
    labels = torch.randint(0, 1000, (rows,), device=device)

    def step(called) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = torch.nn.functional.cross_entropy(called(images), labels)
        loss.backward()
        model.zero_grad(set_to_none=True)
        return loss.detach()

    return model, step


def llama(device: str):
    import torch
    import transformers

    large = dict(
        hidden_size=2048, intermediate_size=5632, num_hidden_layers=16, num_attention_heads=16
    )
    words = large if device == "cuda" else _SMALL
    config = transformers.LlamaConfig(
        num_key_value_heads=words["num_attention_heads"], use_cache=False, **words
    )
    model = _made(lambda: transformers.LlamaForCausalLM(config), device).eval()
    shape = (4, 1024) if device == "cuda" else (4, 64)
    ids = torch.randint(0, config.vocab_size, shape, device=device)

    def step(called) -> torch.Tensor:
        with torch.no_grad():
            return called(input_ids=ids).logits.float().mean()

    return model, step


# What the CPU's models have.
_SMALL = dict(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    vocab_size=512, max_position_embeddings=128,
)  # fmt: skip
MODELS = {"gpt2": gpt2, "bert": bert, "resnet50": resnet50, "llama": llama}


def _wait(device: str) -> None:
    """For what was put on a GPU."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def child(name: str, backend: str, device: str, steps: int) -> None:
    """One process: prints its figures as a line of JSON."""
    import torch

    torch.manual_seed(0)
    model, step = MODELS[name](device)
    eager = step(model).item()
    _wait(device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    graphs, spans = [], []
    begun = time.perf_counter()
    if backend == "kiln":
        import kiln
        from kiln.compiled_graph import recording

        graphs, spans = recording().__enter__(), record_compiles()
    called = torch.compile(model, backend=backend)
    first = step(called).item()
    _wait(device)
    figures = {"first_step_s": time.perf_counter() - begun, "eager": eager, "first": first}
    times = []
    for _ in range(steps):
        begun = time.perf_counter()
        step(called)
        _wait(device)
        times.append(time.perf_counter() - begun)
    figures["step_ms"] = 1e3 * statistics.median(times)
    if device == "cuda":
        figures["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
    if backend == "kiln":
        figures.update(kiln_figures(graphs, spans, kiln))
    print("FIGURES " + json.dumps(figures), flush=True)


def record_compiles() -> list[tuple[float, float]]:
    """A list that fills with the begin and the end of each segment's compile, in seconds. A compile
    goes from the request to the loaded artifact; several run at once."""
    from kiln import _native

    spans: list[tuple[float, float]] = []
    compile_segment = _native.compile

    def timed(*args: object) -> object:
        begun = time.perf_counter()
        try:
            return compile_segment(*args)
        finally:
            spans.append((begun, time.perf_counter()))

    _native.compile = timed
    return spans


def covered(spans: list[tuple[float, float]]) -> float:
    """The seconds that lie in at least one span."""
    total, until = 0.0, 0.0
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def kiln_figures(graphs: list, spans: list[tuple[float, float]], kiln) -> dict[str, object]:
    """What the service did for these graphs. An error where there was no daemon: nothing would be kept."""
    from kiln import _native

    if kiln.counters["local_compiles"]:
        sys.exit("kiln bench torch_compile: no daemon answered (see the warning above)")
    reports = [_native.report(c) for graph in graphs for c in graph.callables]
    return {
        "compile_wall_s": covered(spans),
        "compile_sum_s": sum(end - begin for begin, end in spans),
        "longest_compile_s": max((r["compile_us"] for r in reports), default=0) / 1e6,
        "load_sum_s": sum(r["load_us"] for r in reports) / 1e6,
        "graphs": len(graphs),
        "segments": len(spans),
        "refused": [g.refusal for g in graphs if g.refusal],
        "hosts": sorted({why for g in graphs for why in g.hosts.values()}),
        "compiles": kiln.counters["compiles"],
        "launches": kiln.metrics.launch_count,
        "distinct_kernels": kiln.metrics.generated_kernel_count,
        "library_calls": kiln.metrics.extern_call_count,
    }


def start(name: str, backend: str, device: str, steps: int, folder: str) -> dict | None:
    """The figures of one process on the cache folders below `folder`; None, and words, when it fails."""
    environment = with_caches(folder)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # no user's process compiles all it imports
    command = [sys.executable, __file__, "--child", name, backend, "--steps", str(steps)]
    command += ["--device", device]
    begun = time.perf_counter()
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    took = time.perf_counter() - begun
    lines = [line for line in run.stdout.splitlines() if line.startswith("FIGURES ")]
    if not lines:
        print(f"{name} {backend} FAILED\n{run.stdout[-1500:]}{run.stderr[-3000:]}", flush=True)
        return None
    for line in run.stderr.splitlines():
        if "kiln" in line:
            print(f"  {line[:200]}")
    figures = json.loads(lines[-1].removeprefix("FIGURES "))
    print(
        f"  {name} {backend}: first step {figures['first_step_s']:.2f} s, in a process of {took:.0f} s",
        flush=True,
    )
    return figures


def measure(
    name: str, device: str, runs: dict[str, int], steps: int, turn: int
) -> dict[str, dict] | None:
    """{kind: {backend: figures}}. ``runs``: processes of each kind; of several the figures are those
    of the one whose first step took the median time. Inductor goes first where ``turn``, which
    counts pairs of processes, is even."""
    found: dict[str, dict] = {}
    with contextlib.ExitStack() as folders:
        folder = {b: folders.enter_context(tempfile.TemporaryDirectory()) for b in BACKENDS}
        for kind, count in runs.items():
            seen: dict[str, list[dict]] = {backend: [] for backend in BACKENDS}
            for _ in range(count):
                for backend in BACKENDS[:: 1 if turn % 2 == 0 else -1]:
                    figures = start(name, backend, device, steps, folder[backend])
                    if figures is None:
                        return None
                    seen[backend].append(figures)
                turn += 1
            found[kind] = {backend: _middle(figures) for backend, figures in seen.items()}
    return found


def _middle(runs: list[dict]) -> dict:
    """The run of the median first step, and the first steps of all."""
    runs = sorted(runs, key=lambda figures: figures["first_step_s"])
    all_ = [round(figures["first_step_s"], 2) for figures in runs]
    return {**runs[(len(runs) - 1) // 2], **({"first_steps_s": all_} if len(all_) > 1 else {})}


def compare(name: str, kind: str, found: dict[str, dict]) -> None:
    """Prints one kind of start of a model, under both backends."""
    theirs, ours = (found[backend] for backend in BACKENDS)
    figures = [figure for figure in ("first_step_s", "step_ms", "peak_mib") if figure in ours]
    for figure in figures:
        ratio = ours[figure] / theirs[figure]
        print(
            f"{name:9} {kind:5} {figure:13} kiln {ours[figure]:9.2f}  "
            f"inductor {theirs[figure]:9.2f}  ratio {ratio:.2f}",
            flush=True,
        )
    for figure in SERVICE:
        print(f"{name:9} {kind:5} {figure:17} kiln {ours[figure]:9.3f}", flush=True)
    rest = {k: ours[k] for k in ours if k not in (*figures, *SERVICE)}
    if "first_steps_s" in theirs:
        rest["inductors_first_steps_s"] = theirs["first_steps_s"]
    print(f"{name:9} {kind:5} {json.dumps(rest)}", flush=True)


def device_of(asked: str | None) -> str:
    """The device to run on; words, and an end, when it is not there."""
    import torch

    if asked == "cuda" and not torch.cuda.is_available():
        sys.exit("kiln bench torch_compile: --device cuda: PyTorch finds no GPU here")
    if asked is None and not torch.cuda.is_available():
        print(
            "no GPU here: a small model on the CPU; the large ones on an H200 are in "
            "bench/records/h200_torch.md",
            flush=True,
        )
        return "cpu"
    return asked or "cuda"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="; ".join(MODELS))
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--kinds", default="cold,warm")
    parser.add_argument("--warm-runs", type=int, default=3, help="processes of each backend")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--child", nargs=2, metavar=("MODEL", "BACKEND"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.device, options.steps)
        return 0
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"{unknown[0]} is no model here: expected one of {', '.join(MODELS)}")
    kinds = options.kinds.split(",")
    if kinds not in (["cold"], ["cold", "warm"]):
        parser.error(f"--kinds {options.kinds}: expected cold, or cold,warm")
    runs = {kind: options.warm_runs if kind == "warm" else 1 for kind in kinds}
    print(f"command: {command_line()}", flush=True)
    device = device_of(options.device)
    print("; ".join(f"{name} {value}" for name, value in machine(device).items()), flush=True)
    if not has_bytecode():
        print(
            "PyTorch has no compiled bytecode here: first steps are slower (see --help)", flush=True
        )
    failed = 0
    for turn, name in enumerate(options.models or (list(MODELS) if device == "cuda" else ["gpt2"])):
        found = measure(name, device, runs, options.steps, turn)
        for kind, figures in (found or {}).items():
            compare(name, kind, figures)
        failed |= found is None
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""torch.compile of four large models on a GPU: Kiln and Inductor in one run.

    python bench/torch_compile.py [MODEL...] [--kinds cold,warm] [--steps N]

For each model and backend two new processes run one after the other on one set of cache folders, empty
before the first: "cold" and "warm". A process makes the model, runs one eager step (so that libraries are
open and memory is there), then times torch.compile to the end of the first step, and the median of later
steps. Every figure is printed with the ratio Kiln / Inductor. Needs torch, transformers and torchvision,
and the wheel of Kiln; no network: weights are random.
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

BACKENDS = ("inductor", "kiln")


def _language_step(model, rows: int, length: int, vocabulary: int):
    import torch

    ids = torch.randint(0, vocabulary, (rows, length), device="cuda")

    def step(called) -> float:
        loss = called(input_ids=ids, labels=ids).loss
        loss.backward()
        model.zero_grad(set_to_none=True)
        return loss.item()

    return step


def gpt2():
    import torch
    import transformers

    config = transformers.GPT2Config(use_cache=False)
    model = transformers.GPT2LMHeadModel(config).cuda().to(torch.bfloat16).train()
    return model, _language_step(model, 8, 1024, config.vocab_size)


def bert():
    import torch
    import transformers

    config = transformers.BertConfig()
    model = transformers.BertForMaskedLM(config).cuda().to(torch.bfloat16).train()
    return model, _language_step(model, 16, 512, config.vocab_size)


def resnet50():
    import torch
    import torchvision

    model = torchvision.models.resnet50().cuda().train()
    images = torch.randn(64, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (64,), device="cuda")

    def step(called) -> float:
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(called(images), labels)
        loss.backward()
        model.zero_grad(set_to_none=True)
        return loss.item()

    return model, step


def llama():
    import torch
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=16,
        num_attention_heads=16,
        num_key_value_heads=16,
        use_cache=False,
    )
    model = transformers.LlamaForCausalLM(config).cuda().to(torch.bfloat16).eval()
    ids = torch.randint(0, config.vocab_size, (4, 1024), device="cuda")

    def step(called) -> float:
        with torch.no_grad():
            return called(input_ids=ids).logits.float().mean().item()

    return model, step


MODELS = {"gpt2": gpt2, "bert": bert, "resnet50": resnet50, "llama": llama}


def child(name: str, backend: str, steps: int) -> None:
    """One process: prints its figures as a line of JSON."""
    import torch

    torch.manual_seed(0)
    model, step = MODELS[name]()
    eager = step(model)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    graphs = []
    if backend == "kiln":
        import kiln
        from kiln.compiled_graph import recording

        graphs = recording().__enter__()
    begun = time.perf_counter()
    called = torch.compile(model, backend=backend)
    first = step(called)
    torch.cuda.synchronize()
    figures = {"first_step_s": time.perf_counter() - begun, "eager": eager, "first": first}
    times = []
    for _ in range(steps):
        begun = time.perf_counter()
        step(called)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    figures["step_ms"] = 1e3 * statistics.median(times)
    figures["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
    if backend == "kiln":
        figures.update(kiln_figures(graphs, kiln))
    print("FIGURES " + json.dumps(figures), flush=True)


def kiln_figures(graphs: list, kiln) -> dict[str, object]:
    """What the service did for these graphs."""
    from kiln import _native

    reports = [_native.report(c) for graph in graphs for c in graph.callables]
    return {
        "service_s": max((r["compile_us"] for r in reports), default=0) / 1e6,
        "load_s": sum(r["load_us"] for r in reports) / 1e6,
        "graphs": len(graphs),
        "refused": [g.refusal for g in graphs if g.refusal],
        "hosts": sorted({why for g in graphs for why in g.hosts.values()}),
        "compiles": kiln.counters["compiles"],
        "kernels": kiln.metrics.generated_kernel_count,
        "library_calls": kiln.metrics.extern_call_count,
    }


def measure(name: str, backend: str, kinds: list[str], steps: int) -> dict[str, dict]:
    found: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(
            os.environ,
            TORCHINDUCTOR_CACHE_DIR=f"{folder}/torch",
            TRITON_CACHE_DIR=f"{folder}/triton",
            KILN_CACHE_DIR=f"{folder}/kiln",
            XDG_RUNTIME_DIR=folder,
        )
        for kind in kinds:
            command = [sys.executable, __file__, "--child", name, backend, "--steps", str(steps)]
            run = subprocess.run(command, env=environment, capture_output=True, text=True)
            lines = [x for x in run.stdout.splitlines() if x.startswith("FIGURES ")]
            if not lines:
                print(f"{name} {backend} {kind} FAILED\n{run.stdout[-1500:]}{run.stderr[-3000:]}")
                break
            found[kind] = json.loads(lines[-1].removeprefix("FIGURES "))
            for line in run.stderr.splitlines():
                if "kiln" in line:
                    print(f"  {line[:200]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--kinds", default="cold,warm")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--child", nargs=2, metavar=("MODEL", "BACKEND"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.steps)
        return
    kinds = options.kinds.split(",")
    for name in options.models:
        found = {b: measure(name, b, kinds, options.steps) for b in BACKENDS}
        for kind in kinds:
            if any(kind not in found[b] for b in BACKENDS):
                continue
            theirs, ours = (found[b][kind] for b in BACKENDS)
            for figure in ("first_step_s", "step_ms", "peak_mib"):
                ratio = ours[figure] / theirs[figure]
                print(
                    f"{name:9} {kind:5} {figure:13} kiln {ours[figure]:9.2f}  "
                    f"inductor {theirs[figure]:9.2f}  ratio {ratio:.2f}",
                    flush=True,
                )
            rest = {k: ours[k] for k in ours if k not in ("first_step_s", "step_ms", "peak_mib")}
            print(f"{name:9} {kind:5} {json.dumps(rest)}", flush=True)


if __name__ == "__main__":
    main()

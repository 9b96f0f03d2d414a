"""The kernels of training steps on a GPU, by the profiler: Kiln's and Inductor's generated ones, and all others.

usage: ./kiln bench step_kernels [MODEL...] [--backends inductor,kiln] [--steps N] [--longest N]

Models: those of torch_compile.py, at their sizes for a GPU. A step is run three times; then the
profiler counts the kernels of N more. Milliseconds of a step, by what wrote the kernel:

  generated   Kiln's (kiln_*) or Inductor's (triton_*) own
  reductions  PyTorch's reduction kernels, which Inductor falls back to
  rest        libraries and PyTorch

Each line is followed by the longest generated kernels. Needs a GPU, torch, transformers and
torchvision, and Kiln's wheel.
"""

from __future__ import annotations

import argparse
import sys

from environment import chosen_backends, command_line, machine
from torch_compile import MODELS

BACKENDS = ("inductor", "kiln")
KINDS = ("generated", "reductions", "rest")


def kind_of(kernel: str) -> str:
    if kernel.startswith(("kiln_", "triton_")):
        return "generated"
    return "reductions" if "reduce_kernel" in kernel or "softmax" in kernel.lower() else "rest"


def kernels_of_step(name: str, backend: str, steps: int) -> list[tuple[str, float, float]]:
    """Name, launches and milliseconds of each kernel of a step."""
    import torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    model, step = MODELS[name]("cuda")
    called = torch.compile(model, backend=backend)
    for _ in range(3):
        step(called)
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(steps):
            step(called)
        torch.cuda.synchronize()
    return [
        (e.key, e.count / steps, e.self_device_time_total / steps / 1e3)
        for e in profile.key_averages()
        if e.self_device_time_total > 0 and not e.key.startswith(("Memcpy", "Memset"))
    ]


def report(name: str, backend: str, kernels: list[tuple[str, float, float]], longest: int) -> None:
    sums = {
        kind: sum(ms for kernel, _, ms in kernels if kind_of(kernel) == kind) for kind in KINDS
    }
    launches = sum(count for kernel, count, _ in kernels if kind_of(kernel) == "generated")
    parts = "  ".join(f"{kind} {ms:7.2f} ms" for kind, ms in sums.items())
    print(f"{name:9} {backend:9} {parts}  generated launches {launches:.0f}", flush=True)
    own = [kernel for kernel in kernels if kind_of(kernel[0]) == "generated"]
    for kernel, count, ms in sorted(own, key=lambda k: -k[2])[:longest]:
        print(f"    {ms:7.3f} ms {count:5.0f} x  {kernel[:110]}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="; ".join(MODELS))
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--longest", type=int, default=12, help="kernels to list")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        sys.exit("kiln bench step_kernels: PyTorch finds no GPU here")
    backends = chosen_backends(parser, options.backends, BACKENDS)
    for name in options.models:
        if name not in MODELS:
            parser.error(f"no model {name}; there are {', '.join(MODELS)}")
    print(f"command {command_line()}; {machine('cuda')}", flush=True)
    if "kiln" in backends:
        import kiln  # noqa: F401  registers the backend
    for name in options.models or MODELS:
        for backend in backends:
            kernels = kernels_of_step(name, backend, options.steps)
            report(name, backend, kernels, options.longest)
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())

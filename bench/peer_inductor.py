#!/usr/bin/env python3
"""Compiles and runs corpus cases with PyTorch's Inductor: the peer of Kiln's benchmarks.

usage: peer_inductor.py [--device cpu|cuda] [--threads N] [--repeat N] CASE_FILE.jsonl ...

Prints one JSON line a case: {"case", "compile_s", "run_us", "kernels"}. Inductor's caches are
empty at the start (a temporary folder), and one small graph is compiled first and thrown away, so
that imports and the first start of the host compiler are not counted.
"""
import argparse
import json
import operator
import os
import statistics
import sys
import tempfile
import time


def load_data(path):
    from safetensors import safe_open

    with safe_open(path, "pt") as f:
        return {key: f.get_tensor(key) for key in f.keys()}


def dtype_of(name):
    import torch

    return getattr(torch, name)


def make_input(spec, data, device):
    """A tensor of a case under the strides that the case names, or a plain number."""
    import torch

    if "const" in spec:
        return spec["const"]
    shape, stride, dtype = spec["shape"], spec["stride"], dtype_of(spec["dtype"])
    needed = spec["storage_offset"] + 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if all(shape) else 1
    storage = torch.zeros(max(needed, 1), dtype=dtype, device=device)
    view = torch.as_strided(storage, shape, stride, spec["storage_offset"])
    if data is not None:
        view.copy_(data[spec["key"]])
    elif dtype.is_floating_point:
        view.copy_(torch.randn(shape, device=device))
    else:
        low, high = spec.get("int_range", (0, 2))
        view.copy_(torch.randint(low, high, shape, device=device))
    return view


class Rebuilder:
    """Builds an FX graph from a case's nodes."""

    BUILTINS = {"getitem": operator.getitem, "add": operator.add, "sub": operator.sub, "mul": operator.mul,
                "floordiv": operator.floordiv, "mod": operator.mod}

    def __init__(self, case, constants, symbols, device):
        self.case, self.constants, self.symbols, self.device = case, constants, symbols, device
        self.nodes = {}

    def argument(self, a):
        import torch

        if isinstance(a, list):
            return [self.argument(x) for x in a]
        if not isinstance(a, dict):
            return a
        kind, value = next(iter(a.items()))
        if kind == "node":
            return self.nodes[value]
        if kind == "dtype":
            return dtype_of(value)
        if kind == "device":
            return torch.device(self.device)
        if kind == "float":
            return float(value)
        if kind == "sym":
            return int(eval(value.replace("//", "//"), {"__builtins__": {}, "Max": max, "Min": min}, self.symbols))
        if kind in ("layout", "memory_format"):
            return getattr(torch, value)
        raise ValueError(f"{self.case['name']}: argument {a}")

    def target(self, text):
        import torch

        if text.startswith("<built-in function "):
            return self.BUILTINS[text[len("<built-in function "):-1]]
        namespace, op, overload = text.split(".")
        return getattr(getattr(getattr(torch.ops, namespace), op), overload)

    def build(self):
        import torch
        import torch.fx as fx

        graph = fx.Graph()
        root = torch.nn.Module()
        for node in self.case["nodes"]:
            if node["op"] == "placeholder":
                made = graph.placeholder(node["name"])
            elif node["op"] == "get_attr":
                root.register_buffer(node["target"], self.constants[node["target"]])
                made = graph.get_attr(node["target"])
            elif node["op"] == "output":
                made = graph.output(tuple(self.argument(node["args"][0])))
            else:
                made = graph.call_function(self.target(node["target"]), tuple(self.argument(node["args"])),
                                           {k: self.argument(v) for k, v in node["kwargs"].items()})
            self.nodes[node["name"]] = made
        return fx.GraphModule(root, graph)


def run_case(case, data, device, repeat):
    import torch
    from torch._inductor import metrics
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    inputs = [make_input(s, data, device) for s in case["inputs"]]
    symbols = {n["meta"]["sym"]: i for n, i in zip(case["nodes"], inputs) if n["op"] == "placeholder" and n["meta"] and "sym" in n["meta"]}
    constants = {k: make_input(v, data, device) for k, v in case["constants"].items()}
    module = Rebuilder(case, constants, symbols, device).build()
    metrics.reset()
    begin = time.perf_counter()
    with torch.no_grad():
        decomposed = make_fx(module, decomposition_table=select_decomp_table(), tracing_mode="fake")(*inputs)
        from torch._subclasses import FakeTensorMode

        mode = FakeTensorMode()
        fakes = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs]
        for node, fake in zip([n for n in decomposed.graph.nodes if n.op == "placeholder"], fakes):
            node.meta["val"] = fake
        compiled = compile_fx_inner(decomposed, fakes)
        first = compiled(list(inputs))
        if device == "cuda":
            torch.cuda.synchronize()
        compile_s = time.perf_counter() - begin
        times = []
        for _ in range(repeat):
            begin = time.perf_counter()
            compiled(list(inputs))
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
    del first
    return {"case": case["name"], "compile_s": round(compile_s, 3), "run_us": round(1e6 * statistics.median(times), 1),
            "kernels": metrics.generated_kernel_count}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kiln-peer-") as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        import torch

        torch.set_num_threads(options.threads)
        torch.compile(lambda x: (x + 1).relu())(torch.ones(64, device=options.device))
        for path in options.files:
            with open(path) as f:
                cases = [json.loads(line) for line in f]
            data_path = os.path.join(os.path.dirname(path), cases[0].get("data") or "none")
            data = load_data(data_path) if os.path.exists(data_path) else None
            for case in cases:
                try:
                    row = run_case(case, data, options.device, options.repeat)
                except Exception as error:  # one case that Inductor cannot take is one line
                    row = {"case": case["name"], "error": f"{type(error).__name__}: {error}"[:200]}
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    sys.exit(main())

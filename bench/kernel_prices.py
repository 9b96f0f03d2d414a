"""What configurations of generated kernels take on a GPU, beside the prices that choose among them.

usage: python bench/kernel_prices.py FOLDER [--random] [--all] [--json FILE]

FOLDER is what tests/bench/kernel_prices wrote: a cubin a configuration, and `kernels.jsonl`. Times
are taken as by kernel_timing.GpuClock: L2 is emptied before each launch, and the median of several
counts. Buffers hold zeros, or with --random random bytes: sorts and selections take longer then, but
kernels that gather stop at the first index out of range. Prints for each kernel the chosen
configuration's time over the best one's, worst first (with --all every configuration's), and in the
end the geometric mean of those ratios and how far prices are from times.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import statistics
from pathlib import Path

import torch

from kernel_timing import GpuClock

MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
NUM_REGS, LOCAL_BYTES = 4, 3


class Driver:
    """Loads and launches kernels through the CUDA driver."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._cuda, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: CUDA error {result}")

    def load(self, image: bytes, symbol: str, shared: int) -> tuple:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), image)
        self._call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        if shared > 0:  # also below 48 KiB: static shared memory counts too
            self._call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, shared)
        return module, function

    def attribute(self, function: ctypes.c_void_p, which: int) -> int:
        value = ctypes.c_int()
        self._call("cuFuncGetAttribute", ctypes.byref(value), which, function)
        return value.value

    def unload(self, module: ctypes.c_void_p) -> None:
        self._call("cuModuleUnload", module)

    def launch(self, function: ctypes.c_void_p, line: dict, words: ctypes.Array) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._call(
            "cuLaunchKernel", function, *line["grid"], *line["block"], line["shared"], stream,
            words, None,
        )  # fmt: skip


def new_buffer(size: int, is_random: bool) -> torch.Tensor:
    if is_random:
        return torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda")
    return torch.zeros(size, dtype=torch.uint8, device="cuda")


def time_one(
    driver: Driver, clock: GpuClock, folder: Path, line: dict, memory: dict, is_random: bool
) -> dict:
    module, function = driver.load(
        (folder / line["image"]).read_bytes(), line["symbol"], line["shared"]
    )
    taken: dict[int, int] = {}
    pointers = []
    for size in line["buffers"]:
        place = taken[size] = taken.get(size, -1) + 1
        if (size, place) not in memory:
            memory[size, place] = new_buffer(size, is_random)
        pointers.append(memory[size, place].data_ptr())
    values = [
        ctypes.c_void_p(pointers[o]) if o >= 0 else ctypes.c_longlong(line["scalars"][~o])
        for o in line["order"]
    ]
    words = (ctypes.c_void_p * len(values))(
        *(ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values)
    )
    ms = clock.measure(lambda: None, lambda _: driver.launch(function, line, words))
    figures = {
        "us": 1e3 * ms,
        "real_registers": driver.attribute(function, NUM_REGS),
        "local": driver.attribute(function, LOCAL_BYTES),
    }
    driver.unload(module)
    return figures


def words_of(line: dict) -> str:
    words = f"{line['us']:8.1f} us, {line['real_registers']} registers"
    if line["local"] > 0:
        words += f", {line['local']} bytes of them in memory"
    if "price" in line:
        parts = ", ".join(f"{part} {1e-3 * line[part]:.1f}" for part in ("memory", "issue", "latency"))
        words += f"; priced {1e-3 * line['price']:.1f} us ({parts}) with {line['registers']} registers"
    return f"{words}: {line['config']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--random", action="store_true", help="fill buffers with random bytes")
    parser.add_argument("--all", action="store_true", help="print all configurations")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    options = parser.parse_args()
    driver, clock = Driver(), GpuClock(repeats=5, warmups=1, sleep_ms=0.05)
    empty_us = 1e3 * clock.empty_kernel_ms()
    lines = [json.loads(text) for text in (options.folder / "kernels.jsonl").open()]
    kernels: dict[tuple[str, str], list[dict]] = {}
    for line in lines:
        kernels.setdefault((line["file"], line["kernel"]), []).append(line)
    memory: dict = {}
    file_before = None
    worst = []
    errors = []
    for (file, kernel), configs in sorted(kernels.items()):
        if file != file_before:
            memory.clear()
            clock.release()
            file_before = file
        for line in configs:
            try:
                line.update(
                    time_one(driver, clock, options.folder, line, memory, options.random)
                )
            except RuntimeError as error:
                print(f"{file} {kernel}: {error}: {line}")
        configs = [line for line in configs if "us" in line]
        if not configs:
            continue
        chosen = configs[0]
        best = min(configs, key=lambda line: line["us"])
        shown = sorted(configs, key=lambda line: line["us"]) if options.all else [chosen, best]
        worst.append((chosen["us"] / best["us"], file, kernel, shown))
        priced = [line for line in configs if "price" in line]
        errors += [math.log(1e-3 * line["price"] / max(line["us"] - empty_us, 0.5)) for line in priced]
    for ratio, file, kernel, shown in sorted(worst, key=lambda entry: -entry[0])[:60]:
        print(f"{ratio:5.2f} {file} {kernel}")
        for line in shown:
            print(f"      {words_of(line)}")
    ratios = [entry[0] for entry in worst]
    print(
        f"empty kernel {empty_us:.1f} us; {len(lines)} configurations of {len(worst)} kernels; the chosen"
        f" takes {math.exp(statistics.fmean(map(math.log, ratios))):.3f} of the best's time in the"
        f" geometric mean"
    )
    if len(errors) > 1:
        quartiles = [round(math.exp(q), 2) for q in statistics.quantiles(errors, n=4)]
        print(f"price / time, median {math.exp(statistics.median(errors)):.2f}, quartiles {quartiles}")
    if options.json:
        Path(options.json).write_text("\n".join(json.dumps(line) for line in lines))


if __name__ == "__main__":
    main()

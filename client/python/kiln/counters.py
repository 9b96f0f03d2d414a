"""What this process's compiles came to.

``kiln.counters`` is a dict of numbers; ``kiln.counters.clear()`` starts anew, what was not counted is
0, and a name of nothing is a KeyError. ``kiln.metrics`` sums up what the compiled graphs are made of.
"""

from __future__ import annotations

import collections
import dataclasses
import threading

from .forked import open_in_child

_lock = open_in_child(threading.Lock())


class Counters(collections.Counter[str]):
    """Counts by name; thread-safe to add to.

    ``compiles``: graphs that the service compiled for us; what it compiles later for a graph whose
    guard failed is in ``kiln.recompile_reasons()``. ``cache_hit``: served from its cache.
    ``cache_miss``: not in its cache, so compiled for us, or for another who had asked before.
    ``recompiles``: graphs that Dynamo traced again, since a guard of its own had failed.
    ``host_kernels``: operators that PyTorch runs. ``eager_graphs``: graphs that Kiln refused.
    ``local_compiles``: done without a daemon.
    ``linear_cross_entropy``: linears that were joined with their loss. ``fuse_attention``: attention
    that was written by hand, as one operator.

    Of what graphs are made of, for an artifact of the cache too: ``pattern_matches``, patterns of
    operators that the service replaced; ``scatter_upon_const_tensor``, those of them that scatter
    a number into a tensor of one number; ``binary_folding``, those of them that went into a
    convolution's weights and bias; ``inplace_padding``, buffers that were padded in place;
    ``decompose_addmm``, ``decompose_bmm`` and ``decompose_mm``, tiny products that became loops: those
    that Inductor's passes of these names take.

    Of device graphs: ``cudagraph_skips``, functions that run without one, here or from now on;
    ``cudagraph_rerecords``, recordings made anew since an address had changed;
    ``cudagraph_recorded_non_static_inputs``, inputs that each replay of a recording copies;
    ``cudagraph_partitions``, compiled graphs that are device graphs, and parts of others.
    """

    OF_ARTIFACTS = (
        *("pattern_matches", "scatter_upon_const_tensor", "binary_folding"),
        *("inplace_padding", "decompose_addmm", "decompose_bmm", "decompose_mm"),
    )
    NAMES = (
        *("compiles", "cache_hit", "cache_miss", "recompiles", "host_kernels", "eager_graphs"),
        *("local_compiles", "linear_cross_entropy", "fuse_attention", *OF_ARTIFACTS),
        *("cudagraph_skips", "cudagraph_rerecords", "cudagraph_recorded_non_static_inputs"),
        "cudagraph_partitions",
    )

    def __missing__(self, name: str) -> int:
        if name not in self.NAMES:
            raise KeyError(f"kiln.counters: found {name!r}, expected one of {', '.join(self.NAMES)}")
        return 0

    def add(self, name: str, number: int = 1) -> None:
        with _lock:
            self[name] += number


@dataclasses.dataclass(eq=False)
class Metrics:
    """Sums over the graphs compiled since ``reset()``.

    ``generated_kernel_count``: distinct kernels, each compiled once however often a graph launches
    it. ``launch_count``: launches of a call, fills of memory among them. ``extern_call_count``:
    library calls. ``num_bytes_accessed``: bytes that a call reads and writes, by Inductor's model.
    ``num_comprehensive_padding``: buffers whose rows got a longer stride.
    """

    num_bytes_accessed: int = 0
    generated_kernel_count: int = 0
    extern_call_count: int = 0
    launch_count: int = 0
    num_comprehensive_padding: int = 0

    def reset(self) -> None:
        """All numbers to 0."""
        with _lock:
            for name in self.names():
                setattr(self, name, 0)

    def add(self, name: str, number: int) -> None:
        with _lock:
            setattr(self, name, getattr(self, name) + number)

    def names(self) -> list[str]:
        """Of the numbers."""
        return [field.name for field in dataclasses.fields(self)]


counters = Counters()
metrics = Metrics()


def add_artifact(text: str) -> None:
    """Adds an artifact's own counters, a line each, name and number: to ``metrics`` what it is made
    of, to ``counters`` what its passes did."""
    for line in text.splitlines():
        name, number = line.split()
        if name in metrics.names():
            metrics.add(name, int(number))
        elif name in counters.OF_ARTIFACTS and int(number):
            counters.add(name, int(number))

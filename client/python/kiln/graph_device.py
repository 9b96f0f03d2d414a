"""PyTorch's device graphs, pool and allocator, as a graph tree asks for them (native/graph_host.h).

All warm-ups and recordings of a device allocate in one private pool of PyTorch's allocator, on one
stream: a segment of that allocator serves its own stream alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import logging
import os
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import _utils_internal
from torch._dynamo.mutation_guard import GenerationTracker
from torch._dynamo.utils import preserve_rng_state
from torch._inductor.cudagraph_trees import MarkStepBox
from torch.utils.weak import WeakIdKeyDictionary

from . import _native
from .counters import counters
from .graph_facts import MODES
from .launches import Replay, captured_launches, noted_of_replays
from .run_seeds import SeedSlots
from .torch_inside import untraced

_log = logging.getLogger("kiln")

_C = torch._C
# Without one of them there are no graphs.
NEEDED = (
    "_CUDAGraph",
    "_cuda_beginAllocateCurrentThreadToPool",
    "_cuda_endAllocateToPool",
    "_cuda_releasePool",
    "_cuda_getCheckpointState",
    "_cuda_setCheckpointPoolState",
    "_cuda_cudaCachingAllocator_raw_delete",
    "_cuda_clearCublasWorkspaces",
    "_cuda_getCurrentRawStream",
    "_is_key_in_tls",
    "_get_obj_in_tls",
    "_stash_obj_in_tls",
    "_cuda_get_conv_benchmark_empty_cache",
    "_cudnn_set_conv_benchmark_empty_cache",
    "_free_And_Remove_DeleterFn",
    "_set_storage_data_ptr_access_error_msg",
    "_set_cached_tensors_enabled",
    "_storage_Use_Count",
    "_construct_storage_from_data_pointer",
    "_construct_CUDA_Tensor_From_Storage_And_Metadata",
    "_add_cached_tensor",
    "_remove_cached_tensor",
)
# Of threads, in what PyTorch hands on.
_THREAD = "kiln_graph_thread"
_threads = itertools.count(1)
# Of a capture (CUstreamCaptureMode).
_OF_THIS_THREAD = 1
# Of an input (KilnGraphUse).
_COPIED = 3
# Of a note (KilnGraphNoteKind).
_SKIP, _WARNING, _RERECORD = 0, 1, 2
_NOTES = ("skip", "warning", "re-record", "dropped")
_KEPT_NOTES = 1000


# Captures that could not be ended at all, in torch 2.12: there the allocator of host memory asks them,
# without end, whether they capture. A few of a function: the tree records what fails three times in a
# row no more.
_unended_captures: list[torch.cuda.CUDAGraph] = []


# Where no history has who allocated what lies in the pool and is not known.
_HINT = (
    'torch.cuda.memory._record_memory_history(stacks="all") before the call has this say where they '
    "were allocated."
)


def _stack(frames: list[tuple[str, int, str, str]]) -> str:
    return "".join(traceback.format_list(frames))


def what_is_missing() -> str | None:
    """The function that this PyTorch lacks for graphs."""
    return next((name for name in NEEDED if not hasattr(_C, name)), None)


def keep_cupti(cuda: str | None) -> None:
    """Before device graphs are used with CUPTI of CUDA `cuda`: up to 12.5 it crashes when it is torn
    down and begun again beside them, so profilers are told not to, and each that is on from here on
    notes it in its trace: one that begins later when a graph is replayed. So they are where PyTorch's
    own switch says that no CUPTI may do it. What PyTorch does where its own option says that there
    will be graphs."""
    if cuda is None:
        return
    is_sound = tuple(map(int, cuda.split(".")[:2])) >= (12, 6)
    if is_sound and _utils_internal.profiler_allow_cudagraph_cupti_lazy_reinit_cuda12():
        return
    os.environ["DISABLE_CUPTI_LAZY_REINIT"] = "1"
    os.environ["TEARDOWN_CUPTI"] = "0"
    noted_of_replays["DISABLE_CUPTI_LAZY_REINIT"] = "1"
    if torch.autograd.profiler._is_profiler_enabled:
        torch.autograd._add_metadata_json("DISABLE_CUPTI_LAZY_REINIT", "1")


def _metadata(tensor: torch.Tensor) -> dict[str, object]:
    storage = tensor.untyped_storage()
    return {
        "nbytes": storage.nbytes(),
        "data_ptr": storage.data_ptr(),
        "size": tensor.shape,
        "stride": tensor.stride(),
        "dtype": tensor.dtype,
        "device": tensor.device,
        "storage_offset": tensor.storage_offset(),
    }


def _over(metadata: dict[str, object]) -> torch.Tensor:
    """A tensor that owns nothing."""
    storage = _C._construct_storage_from_data_pointer(
        metadata["data_ptr"], metadata["device"], metadata["nbytes"]
    )
    return _C._construct_CUDA_Tensor_From_Storage_And_Metadata(metadata, storage)


def narrowing(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Sizes and strides of the part of a tensor that has no repetition; None: that is all of it."""
    sizes, strides = tensor.shape, tensor.stride()
    part = tuple(1 if step == 0 < size else size for size, step in zip(sizes, strides))
    return None if part == tuple(sizes) else (part, strides)


def _after(first: Callable[[], None], then: Callable[[], None]) -> Callable[[], None]:
    @untraced
    def both() -> None:
        first()
        then()

    return both


@contextlib.contextmanager
def _of_the_pool() -> Iterator[None]:
    """In which results that share a block share its storage; and no workspace of a library comes
    from outside or goes there: it would be held by two."""
    _native.share_storages(True)
    try:
        with _clean_libraries():
            yield
    finally:
        _native.share_storages(False)


@contextlib.contextmanager
def _clean_libraries() -> Iterator[None]:
    emptying = _C._cuda_get_conv_benchmark_empty_cache()
    _C._cudnn_set_conv_benchmark_empty_cache(False)
    _C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        _C._cuda_clearCublasWorkspaces()
        _C._cudnn_set_conv_benchmark_empty_cache(emptying)


class Capture(torch.cuda.CUDAGraph):
    """A graph whose capture ends also where something has broken it, on the stream that it began on
    whichever one is current then."""

    def capture_begin(self, *args: object, **kwargs: object) -> None:
        self._stream = torch.cuda.current_stream()
        super().capture_begin(*args, **kwargs)

    def capture_end(self) -> None:
        with torch.cuda.stream(self._stream):
            try:
                super().capture_end()
            except RuntimeError:
                self._end_another()
                raise

    def _end_another(self) -> None:
        """The driver has ended the broken one, and PyTorch up to 2.11 has not let go of the pool. It
        will where it can end one, in which nothing was captured. Later ones have, and refuse."""
        stream = ctypes.c_void_p(self._stream.cuda_stream)
        if ctypes.CDLL("libcuda.so.1").cuStreamBeginCapture_v2(stream, _OF_THIS_THREAD) != 0:
            return
        with warnings.catch_warnings(), contextlib.suppress(RuntimeError):
            warnings.simplefilter("ignore")  # that it is empty
            super().capture_end()


class GraphDevice:
    """One GPU. Its methods that native/graph_host.h names are called by the tree."""

    calls, marks = GenerationTracker, MarkStepBox

    def __init__(self, index: int) -> None:
        self.index = index
        keep_cupti(torch.version.cuda)
        _C._set_cached_tensors_enabled(True)
        self.notes: deque[tuple[str, int, str]] = deque(maxlen=_KEPT_NOTES)
        self._ids = itertools.count()
        self._leaves = WeakIdKeyDictionary()
        self.stream_of = functools.partial(_C._cuda_getCurrentRawStream, index)
        self._keeps_pool: torch.cuda.CUDAGraph | None = None
        self._open_pool()

    def _open_pool(self) -> None:
        """A pool that nothing is in, kept by an empty graph, and a stream that captures nothing."""
        with torch.cuda.device(self.index), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the graph is empty
            torch.cuda.synchronize()
            self.stream = torch.cuda.Stream()
            self.stream.wait_stream(torch.cuda.current_stream())
            self.pool = torch.cuda.graph_pool_handle()
            keeps = torch.cuda.CUDAGraph()
            with self._capture(keeps):
                pass
            self._keeps_pool = keeps

    @untraced
    def thread(self) -> int:
        """The number of this thread. PyTorch hands it on to threads that work for this one, as those
        of autograd do: there it is negative, since it is another one in the next call."""
        if _C._is_key_in_tls(_THREAD):
            number = _C._get_obj_in_tls(_THREAD)
        else:
            number = next(_threads)
            _C._stash_obj_in_tls(_THREAD, number)
        works_for_others = isinstance(threading.current_thread(), threading._DummyThread)
        return -number if works_for_others else number

    @untraced
    def change_thread(self, before: int) -> None:
        """The threads' calls use the same memory; on one stream they have an order."""
        if before != self.stream_of():
            torch.cuda.synchronize(self.index)

    @untraced
    def take_another_pool(self) -> bool:
        """After a warm-up or a capture that failed. The error's traceback may hold tensors in the pool
        that the tree does not know, and PyTorch may not let captures into it ("already recording to
        mempool_id"). What is alive there stays there."""
        self._open_pool()
        return True

    def close(self) -> None:
        """The pool goes when nothing in it is in use any more. What Dynamo forgets to drop may hold
        this, and calls nothing."""
        self._keeps_pool = None

    @property
    def pool_name(self) -> str:
        return str(self.pool)

    def _capture(self, graph: torch.cuda.CUDAGraph) -> contextlib.AbstractContextManager:
        return torch.cuda.graph(
            graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
        )

    @contextlib.contextmanager
    def _allocating(self) -> Iterator[None]:
        """In which this thread allocates in the pool, on the pool's stream."""
        torch.cuda.synchronize()
        self.stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(self.stream):
                _C._cuda_beginAllocateCurrentThreadToPool(self.index, self.pool)
                try:
                    yield
                finally:
                    _C._cuda_endAllocateToPool(self.index, self.pool)
                    _C._cuda_releasePool(self.index, self.pool)
        finally:
            torch.cuda.current_stream().wait_stream(self.stream)

    def learn_leaves(self, inputs: list) -> None:
        """Whose gradients are looked for by `keep_gradients`."""
        for value in inputs:
            if isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf:
                self._leaves[value] = None

    @untraced
    def keep_gradients(self, storages: list[int], inputs: list) -> None:
        """A backward's results are parameters' gradients: autograd takes them, it does not copy them.
        When the next call begins, which writes over results, gradients that are still there will be
        added to. What lies in `storages` gets memory of its own."""
        self.learn_leaves(inputs)
        of_graphs = set(storages)
        for leaf in list(self._leaves):
            gradient = leaf.grad
            if gradient is None or gradient.layout != torch.strided:
                continue
            if gradient.untyped_storage()._cdata in of_graphs:
                gradient.data = gradient.detach().clone()

    @untraced
    def warm_up(self, body: Callable[[list], Sequence], inputs: list) -> Sequence:
        self.learn_leaves(inputs)
        with torch.cuda.device(self.index), _of_the_pool(), self._allocating():
            return body(inputs)

    def tell_of_recording(self, body: Callable[[list], Sequence]) -> None:
        """As PyTorch does; the tree numbers its recordings from 0, and so do its calls of this."""
        name, mode = getattr(body, "said", ("function", MODES[0].upper()))  # graph_trees.py
        _log.debug("Recording function=%s, mode=%s, cuda_graph_id=%d,", name, mode, next(self._ids))

    @untraced
    def record(
        self, body: Callable[[list], Sequence], inputs: list, uses: list[int]
    ) -> tuple[list, Callable[[], None], list, list[int], list, list, Replay]:
        self.learn_leaves(inputs)
        self.tell_of_recording(body)
        graph = Capture()
        copied = [place for place, use in enumerate(uses) if use == _COPIED]
        count = getattr(body, "seeds", 0)  # graph_trees.py
        with torch.cuda.device(self.index):
            seeds = SeedSlots(torch.device("cuda", self.index), count) if count else None
            taken, slots, narrow = self._take(inputs, copied)
            torch.cuda.synchronize()
            for value in taken:
                if isinstance(value, torch.Generator):
                    graph.register_generator_state(value)
            given = seeds.captured() if seeds else contextlib.nullcontext()
            stream = torch.cuda.current_stream()
            try:
                with preserve_rng_state(), _of_the_pool(), self._capture(graph), given:
                    with captured_launches() as kernels:
                        outputs = list(body(taken))
            except BaseException:
                torch.cuda.set_stream(stream)
                self._forget_capture(graph)
                raise
            torch.cuda.synchronize()
        counters.add("cudagraph_recorded_non_static_inputs", len(copied))
        metadata = [_metadata(o) if isinstance(o, torch.Tensor) else None for o in outputs]
        launch = _after(seeds.draw, graph.replay) if seeds else graph.replay
        replay = Replay(torch.device("cuda", self.index), kernels)
        return outputs, launch, slots, copied, narrow, metadata, replay

    def _forget_capture(self, graph: torch.cuda.CUDAGraph) -> None:
        """After one that failed. Where it could not be ended, PyTorch leaves behind that this thread
        allocates in the pool, which counts it as a user, and that the generator counts for a graph."""
        try:
            _C._cuda_endAllocateToPool(self.index, self.pool)
        except RuntimeError:  # it was ended, and the graph lets go of the pool
            pass
        else:
            _C._cuda_releasePool(self.index, self.pool)
            _unended_captures.append(graph)
        generator = torch.cuda.default_generators[self.index]
        if hasattr(generator, "graphsafe_set_state"):
            generator.graphsafe_set_state(generator.clone_state())

    def _take(self, inputs: list, copied: list[int]) -> tuple[list, list, list]:
        """The inputs, copied ones in the pool; these, as nobody's; and what is copied of each."""
        taken = list(inputs)
        with torch.no_grad():
            narrow = [narrowing(inputs[place]) for place in copied]
            slots = []
            with self._allocating():
                for place, part in zip(copied, narrow):
                    value = inputs[place]
                    taken[place] = torch.empty_strided(
                        value.size(), value.stride(), dtype=value.dtype, device=value.device
                    )
                    slot = _over(_metadata(taken[place]))
                    slots.append(slot.as_strided(*part) if part else slot)
                values = [
                    inputs[place].as_strided(*part) if part else inputs[place]
                    for place, part in zip(copied, narrow)
                ]
                if slots:
                    torch._foreach_copy_(slots, values)
        inputs.clear()
        return taken, slots, narrow

    def checkpoint(self) -> object:
        return _C._cuda_getCheckpointState(self.index, self.pool)

    def restore(self, state: object, live: list[int]) -> None:
        _C._cuda_setCheckpointPoolState(self.index, state, [], live)

    def free(self, address: int) -> None:
        _C._cuda_cudaCachingAllocator_raw_delete(address)

    def _allocated(self) -> Iterator[tuple[int, dict]]:
        """Blocks by address, as the allocator describes them."""
        for segment in torch.cuda.memory_snapshot():
            if tuple(segment["segment_pool_id"]) != tuple(self.pool):
                continue
            address = segment["address"]
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    yield address, block
                address += block["size"]

    def blocks(self) -> list[int]:
        return [address for address, _ in self._allocated()]

    @untraced
    def origin_of(self, addresses: list[int]) -> str:
        """Who allocated blocks, where PyTorch keeps a history of its memory."""
        wanted, found = set(addresses), []
        for address, block in self._allocated():
            if address in wanted and block.get("frames"):
                frames = [(f["filename"], f["line"], f["name"], "") for f in block["frames"]]
                found.append(f"Data Pointer: {address}, history: \n{_stack(frames)}")
        return "\n".join(found) or _HINT

    def invalidate(self, storage: int, text: str) -> None:
        try:
            _C._free_And_Remove_DeleterFn(storage)
        finally:  # also of memory that is none of the allocator's own
            _C._set_storage_data_ptr_access_error_msg(storage, text)

    def note(self, kind: int, function: int, text: str) -> None:
        self.notes.append((_NOTES[kind], function, text))
        if kind == _SKIP:
            counters.add("cudagraph_skips")
            _log.warning("%s", text)
        elif kind == _WARNING:
            warnings.warn(text, stacklevel=2)
        else:
            if kind == _RERECORD:
                counters.add("cudagraph_rerecords")
            _log.debug("%s", text)

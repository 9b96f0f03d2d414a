"""A device for graph trees without a GPU: what is captured is run anew at each replay.

    tree = Tree()
    function = tree.add(body, inputs=1)     # through the real tree and the real native module
    function([x])                           # warmed up, recorded, replayed
"""

import ctypes
import itertools
import threading
from types import SimpleNamespace

import torch
from torch.utils.weak import WeakIdKeyDictionary

from kiln import _native, service
from kiln.graph_device import _COPIED, GraphDevice, _metadata, narrowing
from kiln.launches import Replay, captured_launches


def values(tensor):
    """What is in a float32 tensor that a replay gave: PyTorch takes it for a GPU's."""
    at = (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())
    return torch.tensor(list(at)).view(tensor.shape)


class StandIn:
    """GraphDevice's interface over host memory, which is never given back."""

    def __init__(self):
        self.calls = SimpleNamespace(generation=0)
        self.marks = SimpleNamespace(mark_step_counter=0)
        self.notes = []
        self._ids = itertools.count()
        self.pools = 1
        self.thread_changes = 0
        self.streams_of_threads = False
        self.waits = []  # of a thread's stream for another's
        self._memory = []
        self._leaves = WeakIdKeyDictionary()

    def step(self):
        """What follows is another call of the program."""
        self.calls.generation += 1

    learn_leaves, keep_gradients = GraphDevice.learn_leaves, GraphDevice.keep_gradients
    tell_of_recording = GraphDevice.tell_of_recording

    def warm_up(self, body, inputs):
        self.learn_leaves(inputs)
        return body(inputs)

    def record(self, body, inputs, uses):
        self.learn_leaves(inputs)
        self.tell_of_recording(body)
        copied = [place for place, use in enumerate(uses) if use == _COPIED]
        taken, narrow, slots = list(inputs), [narrowing(inputs[place]) for place in copied], []
        for place, part in zip(copied, narrow):
            value = inputs[place]
            taken[place] = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
            slots.append(taken[place].as_strided(*part) if part else taken[place])
            slots[-1].copy_(value.as_strided(*part) if part else value)
        inputs.clear()
        with captured_launches() as kernels:
            first = body(list(taken))
        outputs = [self._placed(output) for output in first]
        metadata = [_metadata(output) for output in outputs]
        places = [self._on(one) for one in metadata]

        def launch():
            _native.capturing(True)  # as far as traces see
            try:
                for place, result in zip(places, body(list(taken))):
                    place.copy_(result)
            finally:
                _native.capturing(False)

        replay = Replay(torch.device("cpu"), kernels)
        return outputs, launch, slots, copied, narrow, metadata, replay

    def _placed(self, like):
        """A tensor over memory that is the pool's."""
        self._memory.append((ctypes.c_char * like.untyped_storage().nbytes())())
        return self._on({**_metadata(like), "data_ptr": ctypes.addressof(self._memory[-1])})

    def _on(self, metadata):
        storage = torch._C._construct_storage_from_data_pointer(
            metadata["data_ptr"], metadata["device"], metadata["nbytes"]
        )
        tensor = torch.empty(0, dtype=metadata["dtype"])
        return tensor.set_(storage, metadata["storage_offset"], metadata["size"], metadata["stride"])

    thread = GraphDevice.thread

    def close(self):
        pass

    def stream_of(self):
        return threading.get_ident() if self.streams_of_threads else 5

    def change_thread(self, before):
        self.thread_changes += 1
        self.waits += [(before, self.stream_of())] if before != self.stream_of() else []

    def take_another_pool(self):
        self.pools += 1
        return True

    def checkpoint(self):
        return object()

    def restore(self, state, live):
        pass

    def free(self, address):
        pass

    def blocks(self):
        """All that it ever gave: nothing is given back."""
        return [ctypes.addressof(memory) for memory in self._memory]

    def invalidate(self, storage, text):
        torch._C._set_storage_data_ptr_access_error_msg(storage, text)

    note = GraphDevice.note

    pool_name = "stand-in"


class Tree:
    def __init__(self, device=None):
        service.load_library()
        self.device = device or StandIn()
        self.native = _native.GraphTree(self.device)

    def add(self, body, inputs, static=(), outputs=1, mutated=(), mode=0, **options):
        """A function of `inputs` tensors, of which those at `static` keep their addresses.
        ``options``: as native/graph_tree.h has them."""
        places = list(range(inputs))
        names = [f"input_{place}" for place in places]
        none = [None for _ in places]
        given = mode, body, places, list(static), list(mutated), [], names, none, [None] * outputs, ""
        return self.native.add(*given, options)

#!/usr/bin/env python3
"""What a replay of a device graph costs a Python program beside the launch itself.

usage: ./kiln bench replays          (after the same of C++; where ./kiln test-torch has run)

Through the real tree and native module, on the stand-in for a GPU of the package's tests
(tests/python/graph_stand_in.py), with a launch that does nothing: microseconds of processor time a
call, the least of some turns. The copy of an input is PyTorch's on the CPU here.
"""

import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "python"))

from graph_stand_in import StandIn, Tree  # noqa: E402

CALLS, TURNS = 500, 30
CASES = ((1, 0, 1), (20, 0, 1), (200, 0, 10), (1, 1, 1), (20, 20, 1))  # inputs, copied, outputs


class Idle(StandIn):
    """Whose graphs do nothing when they are launched."""

    def record(self, body, inputs, uses):
        outputs, _, *rest = super().record(body, inputs, uses)
        return outputs, int, *rest


def measure(inputs, copied, outputs):
    def body(given):
        given.clear()
        return [torch.zeros(16) for _ in range(outputs)]

    tree = Tree(Idle())
    function = tree.add(body, inputs, static=range(copied, inputs), outputs=outputs)
    given = [torch.zeros(16) for _ in range(inputs)]
    best = float("inf")
    for turn in range(TURNS + 1):
        calls = [list(given) for _ in range(CALLS if turn else 5)]
        begin = time.process_time()
        for call in calls:
            tree.device.step()
            function(call)
        if turn:
            best = min(best, (time.process_time() - begin) / CALLS)
    assert tree.native.report()["recordings"] == 1
    return best * 1e6


def main():
    torch.set_num_threads(1)
    torch.Tensor.is_cuda = property(lambda tensor: True)
    print("\n| inputs | copied | outputs | us a call |\n|---|---|---|---|")
    for case in CASES:
        print("|", " | ".join(map(str, case)), f"| {measure(*case):.2f} |", flush=True)


if __name__ == "__main__":
    main()

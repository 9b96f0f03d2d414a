"""Random programs over a tree of device graphs, beside the same in eager mode, where each result has
memory of its own: they allocate, keep, drop, alias, compute and call in random order, and what they
hold is equal at all times.

A few by default. A thousand, by hand on a GPU, in two minutes:

    KILN_RANDOM_PROGRAMS=1000 python -m pytest -n 12 graph_trees/test_random_programs.py

The same over a tree without PyTorch: tests/runtime/graph_tree/random_programs_test.
"""

import os
import random

import pytest
import torch

from random_functions import CELLS, RandomFunction, fresh
from trees import graphs, state

PROGRAMS = int(os.environ.get("KILN_RANDOM_PROGRAMS", "40"))
STEPS = 60
FUNCTIONS = 60  # of a kind, that programs choose from


class Pair:
    """A tensor of the user in both worlds."""

    def __init__(self, tree, plain, is_output=False):
        self.tree, self.plain = tree, plain
        self.is_output = is_output  # its memory is the next iteration's

    @property
    def memory(self):
        return self.plain.untyped_storage().data_ptr()


class Called:
    def __init__(self, number, writes):
        self.function = RandomFunction(random.Random(number), writes)
        self.compiled = graphs(self.function.compute)


class Program:
    def __init__(self, seed, writes):
        self.dice = random.Random(seed)
        numbers = self.dice.sample(range(FUNCTIONS), self.dice.randint(1, 4))
        self.called = [Called(number, writes) for number in numbers]
        self.kept, self.stale = [], []
        self.parameter = self.fresh()
        torch._dynamo.mark_static_address(self.parameter.tree)
        self.calls = 0

    def fresh(self):
        tree = fresh(self.dice)
        return Pair(tree, tree.clone())

    def run(self):
        self.begin_iteration()
        actions = [self.begin_iteration, self.drop, self.alias, self.compute]
        for _ in range(STEPS):
            kind = self.dice.randrange(2 * len(actions))
            (actions[kind] if kind < len(actions) else self.call)()
            self.compare()

    def begin_iteration(self):
        """Outputs of the last one are nobody's; some are held on, and not read."""
        torch.compiler.cudagraph_mark_step_begin()
        outputs = [pair for pair in self.kept if pair.is_output]
        self.kept = [pair for pair in self.kept if not pair.is_output]
        self.stale += [pair.tree for pair in outputs if self.dice.randrange(3) == 0]
        del self.stale[:-3]

    def any(self):
        return self.kept[self.dice.randrange(len(self.kept))] if self.kept else None

    def drop(self):
        if self.kept:
            del self.kept[self.dice.randrange(len(self.kept))]

    def alias(self):
        of = self.any()
        if of is not None:
            start = self.dice.randrange(len(of.plain))
            self.kept.append(Pair(of.tree[start:], of.plain[start:], of.is_output))

    def compute(self):
        of = self.any()
        if of is not None:
            more = (0, CELLS - len(of.plain))
            pad = torch.nn.functional.pad
            self.kept.append(Pair(pad(of.tree, more) * 2 + 3, pad(of.plain, more) * 2 + 3))

    def choose(self, taken):
        """A tensor of the user, or a new one; never one that shares memory with another input."""
        used = {self.parameter.memory, *(pair.memory for pair in taken)}
        for _ in range(4):
            pair = self.any()
            if pair is not None and len(pair.plain) == CELLS and pair.memory not in used:
                return pair
        return self.fresh()

    def call(self):
        called = self.dice.choice(self.called)
        inputs = []
        for _ in range(called.function.inputs - called.function.has_parameter):
            inputs.append(self.choose(inputs))
        if called.function.has_parameter:
            inputs.append(self.parameter)
        found = called.compiled(*(pair.tree for pair in inputs))
        due = called.function.compute(*(pair.plain for pair in inputs))
        self.calls += 1
        assert len(found) == len(due), called.function.text
        for got, expected in zip(found, due):
            assert (got is None) == (expected is None), called.function.text
            if got is not None and self.dice.randrange(3):
                self.kept.append(Pair(got, expected, is_output=True))

    def compare(self):
        for pair in [*self.kept, self.parameter]:
            if not torch.equal(pair.tree, pair.plain):
                texts = [called.function.text for called in self.called]
                raise AssertionError("\n".join([f"{pair.tree} for {pair.plain}", *texts]))


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("seed", range(PROGRAMS // 2))
def test_programs_hold_what_they_would_in_memory_of_their_own(seed, writes):
    program = Program(seed, writes)
    program.run()
    counts = state()
    # One that writes to what is no graph's goes without a graph.
    assert program.calls > 0 and counts["warm_ups"] + counts["plain_runs"] > 0
    print(counts["recordings"], "recordings,", counts["replays"], "replays")

"""Ten thousand steps that keep and drop outputs at random: no value is wrong, and no memory grows."""

import gc
import random

import torch

from trees import graphs, live_blocks, recordings, state

STEPS = 10_000


def twofold(x):
    return x * 2 + 1, x - 3


def product(x):
    y = x @ x
    return y, y.view(-1)


def shifted(x):
    return x.t().contiguous(), (x + 5).sum(0)


FUNCTIONS = (twofold, product, shifted)


class Program:
    """Steps of a program. What is drawn is little enough that the first half of the steps has seen
    nearly all of it; the numbers are whole and small, so that every value is exact."""

    def __init__(self):
        self.draw = random.Random(17)
        self.called = [graphs(f, slow_path_cudagraph_asserts=False) for f in FUNCTIONS]
        torch.manual_seed(0)
        self.inputs = [torch.randint(0, 4, (8, 8), device="cuda").float() for _ in range(5)]
        self.layer = torch.nn.Linear(8, 8, device="cuda")
        with torch.no_grad():
            for parameter in self.layer.parameters():
                parameter.copy_(torch.randint(-2, 3, parameter.shape))
        self.trained = graphs(self.layer, slow_path_cudagraph_asserts=False)
        self.expected = {}
        self.wrong = self.checks = 0

    def check(self, kept):
        for value, due in kept:
            self.checks += 1
            self.wrong += not torch.equal(value, due)

    def due(self, number, source, x):
        """What a function gives, by the value of its input."""
        key = number, source
        if key not in self.expected:
            self.expected[key] = [y.clone() for y in FUNCTIONS[number](x)]
        return self.expected[key]

    def step(self):
        torch.compiler.cudagraph_mark_step_begin()
        number = self.draw.randrange(len(self.inputs))
        if self.draw.random() < 0.25:
            self.train(self.inputs[number])
        else:
            self.chain(number)

    def chain(self, number):
        """Three calls; what is kept of each, and how long, is drawn."""
        x, kept = self.inputs[number], []
        self.call(0, x, (number,), kept)
        source, name = x, (number,)
        if kept and self.draw.random() < 0.5:
            source, name = kept[0][0], (number, kept[0][2])
        self.call(1 + self.draw.randrange(2), source, name, kept)
        del source
        for place in reversed(range(len(kept))):
            if self.draw.random() < 0.5:
                del kept[place]
        self.call(0, x, (number,), kept)

    def call(self, number, source, name, kept):
        results = self.called[number](source)
        due = self.due(number, name, source)
        self.check(zip(results, due, strict=True))
        for place, (one, expected) in enumerate(zip(results, due, strict=True)):
            if self.draw.random() < 0.5:
                kept.append((one, expected, place))
        del results, one
        self.check([(value, expected) for value, expected, _ in kept])

    def train(self, x):
        self.layer.zero_grad(set_to_none=True)
        y = self.trained(x)
        expected = y.detach().clone()
        y.square().sum().backward()
        if self.draw.random() < 0.5:
            y = None
        with torch.no_grad():
            due = torch.nn.functional.linear(x, self.layer.weight, self.layer.bias)
        gradient = 2 * due.t() @ x
        self.check([(expected, due), (self.layer.weight.grad, gradient)])
        if self.draw.random() < 0.5:
            self.layer.weight.grad = None

    def held(self):
        """On the device, of Python's objects, and pages of the process."""
        self.layer.zero_grad(set_to_none=True)
        gc.collect()
        torch.cuda.synchronize()
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        device = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        return device, len(gc.get_objects()), pages


def test_steps_that_keep_and_drop_outputs_at_random_grow_no_memory():
    program, held = Program(), []
    for _ in range(4):
        for _ in range(STEPS // 4):
            program.step()
        held.append(program.held())
        device, objects, pages = held[-1]
        print(f"allocated, reserved {device}; {objects} objects, {pages} pages; {recordings()} recordings")
    print(f"{program.checks} values, {program.wrong} wrong; {state()['replays']} replays")
    assert program.wrong == 0
    (device, objects, pages), (later, more_objects, more_pages) = held[1], held[3]
    assert all(now <= then for now, then in zip(later, device)), (later, device)
    assert more_objects - objects < 100
    assert more_pages - pages < 1024  # 4 MiB
    assert live_blocks() == 0

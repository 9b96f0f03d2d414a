"""Seeds of runs: drawn from the generator of the device that a graph runs on."""

import threading

import pytest
import torch
import torch.nn.functional as F

from kiln import _native, program, run_seeds
from kiln.compiled_graph import recording
from kiln.recipe import HostRecipe, KilnRecipe, Place, Recipe

GPU = torch.device("cuda", 1)


class Generator:
    """As a CUDA generator: a seed, and an offset that is a multiple of 4."""

    def __init__(self, seed):
        self.manual_seed(seed)

    def manual_seed(self, seed):
        self.seed, self.offset = seed, 0

    def initial_seed(self):
        return self.seed

    def get_offset(self):
        return self.offset

    def set_offset(self, offset):
        assert offset % 4 == 0 and 0 <= offset < 1 << 64
        self.offset = offset
        return self


@pytest.fixture
def generators(monkeypatch):
    """Those of two GPUs, neither of which captures a graph."""
    made = (Generator(1), Generator(1))
    monkeypatch.setattr(torch.cuda, "default_generators", made)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return made


def drawn(draw, count=8):
    return [draw() for _ in range(count)]


def test_a_gpus_seeds_are_its_own_generators(generators):
    draw = run_seeds.seeds_of(GPU)
    generators[1].manual_seed(7)
    first = drawn(draw)
    torch.manual_seed(0)
    generators[0].manual_seed(9)
    generators[1].manual_seed(7)
    assert drawn(draw) == first
    generators[1].manual_seed(8)
    assert not set(drawn(draw)) & set(first)


def test_each_seed_of_a_gpu_is_another_one_and_none_is_negative(generators):
    seeds = drawn(run_seeds.seeds_of(GPU), 1000)
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 1 << 63 for seed in seeds)
    # As often set as not, in each of 63 bits: 500 of 1000, and 5 deviations of 16 at most.
    for bit in range(63):
        assert 420 < sum(seed >> bit & 1 for seed in seeds) < 580, bit


def test_a_state_that_is_put_back_gives_the_same_seeds_again(generators):
    draw = run_seeds.seeds_of(GPU)
    drawn(draw, 3)
    offset = generators[1].get_offset()
    assert offset > 0  # an operator of PyTorch's would draw others next
    due = drawn(draw)
    generators[1].set_offset(offset)
    assert drawn(draw) == due


def test_the_ends_of_a_generators_numbers_are_seeds_as_others(generators):
    draw = run_seeds.seeds_of(GPU)
    for seed, offset in [((1 << 64) - 1, (1 << 64) - 4), (0, 0)]:
        generators[1].manual_seed(seed)
        generators[1].set_offset(offset)
        one, other = draw(), draw()
        assert one != other and 0 <= one < 1 << 63 and 0 <= other < 1 << 63


def test_while_a_graph_is_captured_and_on_the_cpu_seeds_are_the_cpus(generators, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    torch.manual_seed(3)
    due = drawn(run_seeds.draw_on_host)
    for device in (GPU, torch.device("cpu")):
        torch.manual_seed(3)
        assert drawn(run_seeds.seeds_of(device)) == due
    assert generators[1].get_offset() == 0


class Served:
    """A segment that an artifact serves."""

    unserved = rescue = None


@pytest.fixture
def drawn_by_segments(monkeypatch):
    """What each run of a segment drew, in order."""
    taken = []

    def segment(callable_, unserved, instead, rescue, draw):
        def run(inputs, *seed):
            taken.append(0 if draw is None else seed[0] if seed else draw())
            return [inputs[0]]

        return run

    monkeypatch.setattr(program._native, "segment", segment)
    return taken


@pytest.mark.parametrize("results", [[Place(1)], [Place(1), Place(0)]], ids=["direct", "steps"])
def test_a_program_runs_what_is_random_with_the_seeds_that_it_is_given(drawn_by_segments, results):
    for has_random in (True, False):
        step = KilnRecipe(b"", [0], [1], [], has_random)
        recipe = Recipe(1, 2, [], [step], results)
        run = program.make_program(recipe, [object()], [Served()], iter(range(5, 9)).__next__)
        run([torch.ones(1)])
        run([torch.ones(1)])
    assert drawn_by_segments == [5, 6, 0, 0]


def test_a_program_draws_its_seeds_before_an_operator_of_pytorchs_draws(drawn_by_segments):
    order = []

    def draw():
        order.append("seed")
        return len(order)

    def noise(x):
        order.append("operator")
        return x

    steps = [
        KilnRecipe(b"", [0], [1], [], True),
        HostRecipe(noise, (Place(1),), {}, 2),
        KilnRecipe(b"", [2], [3], [], False),
        HostRecipe(noise, (Place(3),), {}, 4),
        KilnRecipe(b"", [4], [5], [], True),
    ]
    recipe = Recipe(1, 6, [], steps, [Place(5)])
    run = program.make_program(recipe, [object()] * 3, [Served()] * 3, draw)
    run([torch.ones(1)])
    assert order == ["seed", "seed", "operator", "operator"]
    assert drawn_by_segments == [1, 0, 2]


def test_what_runs_in_pytorch_draws_no_seed():
    class Eager(Served):
        def run(self, inputs):
            return [inputs[0]]

    step = KilnRecipe(b"", [0], [1], [], True)
    recipe = Recipe(1, 2, [], [step], [Place(1), Place(0)])
    program.make_program(recipe, [None], [Eager()], pytest.fail)([torch.ones(1)])


def test_captured_runs_draw_from_slots_which_each_replay_writes(generators, monkeypatch):
    draw = run_seeds.seeds_of(GPU)
    generators[1].manual_seed(7)
    due = [drawn(draw, 2) for _ in range(3)]
    generators[1].manual_seed(7)
    slots = run_seeds.SeedSlots(torch.device("cpu"), 2)
    monkeypatch.setattr(slots, "_device", GPU)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with slots.captured():
        first, second = draw(), draw()
    assert generators[1].get_offset() == 0
    assert isinstance(draw(), int)  # of a capture that is none of Kiln's
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert first.data_ptr() + 8 == second.data_ptr()
    asked, draws_of = [], run_seeds.draws_of
    monkeypatch.setattr(run_seeds, "draws_of", lambda *of: asked.append(of[1]) or draws_of(*of))
    for seeds in due:
        slots.draw()
        assert [first.item(), second.item()] == seeds
    assert asked == [2, 2, 2]  # both at once


def test_another_threads_runs_draw_from_no_slots(generators, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    found = []
    with run_seeds.SeedSlots(torch.device("cpu"), 1).captured():
        thread = threading.Thread(target=lambda: found.append(run_seeds.seeds_of(GPU)()))
        thread.start()
        thread.join()
    assert isinstance(found[0], int)


def compiled_dropout(function, x):
    with recording() as graphs:
        torch.compile(function, backend="kiln", fullgraph=True)(x)
    (graph,) = graphs
    return graph


def test_a_slot_gives_a_run_the_numbers_of_the_seed_in_it():
    x = torch.ones(1000)
    (callable_,) = compiled_dropout(lambda x: F.dropout(x, 0.5), x).callables
    slot = torch.zeros((), dtype=torch.int64)
    for seed in (5, 2**62 + 3, 5):
        slot.fill_(seed)
        (by_slot,) = _native.run(callable_, [x], slot)
        (due,) = _native.run(callable_, [x], seed)
        assert torch.equal(by_slot, due)
        assert 0.4 < (due == 0).float().mean() < 0.6


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.dropout(x, 0.0) + 1,
        lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.0),
        lambda x: F.dropout(x, 0.5, training=False) * 2,
    ],
    ids=["dropout", "attention", "evaluation"],
)
def test_a_graph_that_draws_nothing_takes_no_seed(function):
    x = torch.rand(2, 3, 16, 8)
    called = torch.compile(function, backend="kiln", fullgraph=True)
    called(x)
    state = torch.get_rng_state()
    called(x)
    assert torch.equal(torch.get_rng_state(), state)
    torch.compile(lambda x: F.dropout(x, 0.5), backend="kiln", fullgraph=True)(x)
    assert not torch.equal(torch.get_rng_state(), state)

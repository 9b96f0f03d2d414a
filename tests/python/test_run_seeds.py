"""Seeds of runs: drawn from the generator of the device that a graph runs on."""

import pytest
import torch

from kiln import program, run_seeds
from kiln.recipe import KilnRecipe, Place, Recipe

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


@pytest.mark.parametrize("results", [[Place(1)], [Place(1), Place(0)]], ids=["direct", "steps"])
def test_a_program_runs_what_is_random_with_the_seeds_that_it_is_given(monkeypatch, results):
    class Served:
        unserved = rescue = None

    def segment(callable_, unserved, instead, rescue, draw):
        return lambda inputs: [taken.append(draw() if draw else 0) or inputs[0]]

    taken = []
    monkeypatch.setattr(program._native, "segment", segment)
    for has_random in (True, False):
        step = KilnRecipe(b"", [0], [1], [], has_random)
        recipe = Recipe(1, 2, [], [step], results)
        run = program.make_program(recipe, [object()], [Served()], iter(range(5, 9)).__next__)
        run([torch.ones(1)])
        run([torch.ones(1)])
    assert taken == [5, 6, 0, 0]

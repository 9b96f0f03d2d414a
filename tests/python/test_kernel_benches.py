"""The benchmarks of generated kernels (bench/gpu_kernels.py, cpu_kernels.py, kernel_sweep.py)."""

import dataclasses
import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.usefixtures("bench")


@pytest.mark.parametrize(
    "words",
    [
        ["gpu_kernels.py", "--device", "cpu", "--families", "^softmax|dropout|^embedding|AdamW"],
        ["cpu_kernels.py", "--families", "^softmax|^sort|linear"],
        ["kernel_sweep.py", "--device", "cpu", "--part", "1/40"],
    ],
    ids=lambda words: words[0],
)
def test_small_sizes_run_and_are_right(words, bench, tmp_path):
    words = [*words, "--tiny", "--repeats", "1", "--backends", "kiln"]
    command = [sys.executable, str(bench / words[0]), *words[1:], "--json", tmp_path / "figures"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "wrong or failed with Kiln: none" in run.stdout
    assert "host kernels" not in run.stdout


def test_there_are_as_many_families_as_the_profile_has():
    from kernel_families import CPU, GPU

    assert len({family.name for family in GPU}) == len(GPU) == 39
    assert len({family.name for family in CPU}) == len(CPU) == 21


@pytest.mark.parametrize("backward", ["", "with", "alone"])
def test_a_wrong_result_is_told_of(backward):
    from kernel_families import Maker, sweep_family
    from kernel_timing import Case

    family = sweep_family("softmax", 16, 64, torch.float32)
    family = dataclasses.replace(family, backward=backward)
    case = Case(family, Maker("cpu"))
    results = case.results(family.function)
    assert case.disagreement(results, case.errors(results)) == ""
    results[-1][3] += 1
    assert "relative error" in case.disagreement(results, case.errors(results))


def test_a_sweep_goes_through_all_families_and_lengths():
    from kernel_families import SWEEP
    from kernel_sweep import DTYPES, LENGTHS, make_points

    points = make_points(320, 1, list(SWEEP))
    assert points == make_points(320, 1, list(SWEEP))
    assert len({(point.family, point.length) for point in points}) == len(SWEEP) * len(LENGTHS)
    assert {point.dynamic for point in points[:60]} == {"", "all", "rows"}
    for point in points:
        size = point.rows * point.length * DTYPES[point.dtype]
        assert 0.9e6 <= size <= 600e6 and 1 <= point.rows <= 1_000_000, point

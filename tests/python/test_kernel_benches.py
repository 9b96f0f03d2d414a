"""bench/gpu_kernels.py, cpu_kernels.py, cpu_models.py, kernel_sweep.py and contractions.py."""

import collections
import dataclasses
import json
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
        ["cpu_models.py"],
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


def test_contractions_run_at_small_sizes_and_are_right(bench, tmp_path):
    cases = "tall 16 |middle|nt 2048|8x.*x64 causal|mask fwd|513|ResNet-50 [17]x.*NCHW|2x2"
    command = [sys.executable, str(bench / "contractions.py"), "products", "attention"]
    command += ["convolutions", "--cases", cases, "--device", "cpu", "--tiny", "--repeats", "1"]
    run = subprocess.run([*command, "--json", tmp_path / "figures"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "wrong or failed with Kiln: none" in run.stdout
    assert "host kernels" not in run.stdout
    rows = json.loads((tmp_path / "figures").read_text())["rows"]
    assert {row["group"] for row in rows} == {"products", "attention", "convolutions"}
    for row in rows:
        assert row["ratio"] > 0 and len(row["backends"]) > 1, row


def test_there_are_as_many_contractions_as_the_bars_name():
    from contraction_cases import CONTRACTIONS

    groups = collections.Counter(c.group for c in CONTRACTIONS)
    assert groups == {"products": 40, "odd": 16, "attention": 2 * 19, "convolutions": 2 * 23}
    assert len({c.name for c in CONTRACTIONS}) == len(CONTRACTIONS)


@pytest.mark.parametrize("words", ["8x24(8)x64x16", "4x4x33:21x8"])
def test_attention_is_compared_with_float64_batch_by_batch(words):
    from contraction_cases import attention
    from contraction_timing import Attention
    from kernel_families import Maker
    from kernel_timing import Case

    for contraction in attention(words, mask="bool"):
        case = Attention(contraction.family, Maker("cpu"))
        whole = Case(contraction.family, Maker("cpu"))
        torch.testing.assert_close(case.expected, whole.expected)
        results = case.results(contraction.family.function)
        assert case.disagreement(results, case.errors(results)) == ""
        results[-1][3] += 1
        assert "relative error" in case.disagreement(results, case.errors(results))


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

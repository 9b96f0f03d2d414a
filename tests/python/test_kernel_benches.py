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
        ["kernel_sweep.py", "--device", "cpu", "--part", "1/30"],
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
    from kernel_families import Maker
    from kernel_timing import Case
    from sweep_families import sweep_family

    family = sweep_family("softmax", (16, 64), torch.float32)
    family = dataclasses.replace(family, backward=backward)
    case = Case(family, Maker("cpu"))
    results = case.results(family.function)
    assert case.disagreement(results, case.errors(results)) == ""
    results[-1][3] += 1
    assert "relative error" in case.disagreement(results, case.errors(results))


def test_a_wrong_order_is_told_of():
    from kernel_families import Maker
    from kernel_timing import Case
    from sweep_families import sweep_family

    case = Case(sweep_family("argsort", (4, 64), torch.bfloat16), Maker("cpu"))
    (right,) = case.results(case.family.function)
    assert case.disagreement((right,), []) == ""
    assert "do not sort" in case.disagreement((right.flip(-1),), [])
    case.inputs = (torch.zeros_like(case.inputs[0]),)
    assert "named twice" in case.disagreement((torch.zeros_like(right),), [])


def test_the_sweep_has_all_functions_of_the_families():
    from kernel_families import GPU
    from sweep_families import SWEEP

    # Of LayerNorm's kinds of backward, say, another one may stand in the sweep.
    swept = {(family.function, bool(family.backward)) for family in SWEEP.values()}
    assert swept >= {(family.function, bool(family.backward)) for family in GPU}


def test_a_sweep_goes_through_all_families_and_lengths():
    from kernel_sweep import make_points
    from sweep_families import SWEEP

    longest = max(len(family.lengths) for family in SWEEP.values())
    points = make_points(longest * len(SWEEP), 1, list(SWEEP))
    assert points == make_points(len(points), 1, list(SWEEP))
    assert {point.family for point in points[: len(SWEEP)]} == set(SWEEP)
    for name, family in SWEEP.items():
        own = [point for point in points if point.family == name]
        assert {point.length for point in own} == set(family.lengths)
        assert {point.dtype for point in own} <= set(family.dtypes)
    assert {point.dynamic for point in points[:60]} == {"", "all", "rows"}


def test_the_tensors_of_a_sweep_are_neither_tiny_nor_huge():
    from kernel_families import Maker, nbytes
    from kernel_sweep import make_points
    from sweep_families import SWEEP, sweep_family

    for point in make_points(20 * len(SWEEP), 1, list(SWEEP)):
        family = sweep_family(point.family, point.sizes, getattr(torch, point.dtype))
        inputs = family.make(Maker("meta"))
        if family.state:
            (optimizer,) = inputs
            sizes = [nbytes(*optimizer.param_groups[0]["params"])]
            most = sizes[0]
        else:
            results = family.function(*inputs)
            results = results if isinstance(results, tuple) else (results,)
            sizes = [nbytes(x) for x in (*inputs, *results) if x.is_floating_point()]
            most = max(nbytes(x) for x in inputs)
        assert max(sizes) >= 0.6e6 and most <= 700e6, point


def test_all_families_of_a_sweep_run_in_eager_mode():
    from kernel_families import Maker
    from kernel_sweep import make_points
    from kernel_timing import Case
    from sweep_families import SWEEP, sweep_family

    for point in make_points(3 * len(SWEEP), 1, list(SWEEP)):
        family = sweep_family(point.family, point.sizes, getattr(torch, point.dtype))
        case = Case(family, Maker("cpu", tiny=True)).own()
        results = case.results(family.function)
        assert case.traffic(results) > 0, point
        assert case.disagreement(results, case.errors(results)) == "", point


def test_a_symbolic_number_of_rows_is_marked_wherever_it_stands():
    from kernel_families import Maker
    from kernel_sweep import Point, mark_count
    from sweep_families import sweep_family

    marked = {
        ("transpose add", (24, 64)): [{0}, {1}],
        ("bias add", (24, 64)): [{0}, set(), {0}],
        ("index_add", (1000, 64, 24)): [set(), {0}, {0}],
        ("maxpool", (24, 64, 7, 7)): [{0}],
    }
    for (name, sizes), expected in marked.items():
        inputs = sweep_family(name, sizes, torch.float32).make(Maker("cpu"))
        mark_count(Point(name, sizes[-1], sizes, "float32", "rows"), inputs)
        seen = [getattr(x, "_dynamo_weak_dynamic_indices", set()) for x in inputs]
        assert seen == expected, name

"""bench/torch_compile.py: what it says of the service's time, and the command of a record."""

import sys

import pytest

pytestmark = pytest.mark.usefixtures("bench")


def test_the_wall_time_of_compiles_counts_no_second_twice():
    from torch_compile import covered

    assert covered([]) == 0
    # Two that overlap, one within another, and one apart.
    assert covered([(5, 6), (1, 3), (2, 4), (2.5, 2.75)]) == 4


def test_each_pair_of_processes_has_another_backend_go_first(monkeypatch):
    import torch_compile

    seen = []

    def start(name, backend, device, steps, folder):
        seen.append(backend)
        return {"first_step_s": 1.0}

    monkeypatch.setattr(torch_compile, "start", start)
    for turn in (0, 1):
        torch_compile.measure("gpt2", "cpu", {"cold": 1, "warm": 2}, 1, turn)
    pairs = list(zip(seen[::2], seen[1::2]))
    assert pairs[:3] == [("inductor", "kiln"), ("kiln", "inductor"), ("inductor", "kiln")]
    assert pairs[3:] == [("kiln", "inductor"), ("inductor", "kiln"), ("kiln", "inductor")]


def test_the_command_of_a_record_has_the_environment_it_needs(monkeypatch):
    from environment import command_line

    monkeypatch.setattr(sys, "argv", ["bench/torch_compile.py", "gpt2", "--kinds", "cold"])
    line = command_line(
        {"PYTHONPYCACHEPREFIX": "/tmp/byte code", "HOME": "/home/me", "KILN_STRICT": "1"}
    )
    assert line == (
        "PYTHONPYCACHEPREFIX='/tmp/byte code' KILN_STRICT=1 "
        "python bench/torch_compile.py gpt2 --kinds cold"
    )

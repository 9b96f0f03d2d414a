"""Replays of device graphs in the traces that the option trace has calls write, without a GPU."""

import json

import pytest
import torch

import kiln
from graph_stand_in import Tree, values
from kiln.traces import traced

REPLAY = ("graph", "kiln_graph_replay", ["kiln_poi_fused_add_sin_0"])


class Program:
    """A tree's function of x, of which each call is a step of its own."""

    def __init__(self, folder):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: (x + 1).sin(), backend="kiln")
        self.tree = Tree()
        self._function = self.tree.add(lambda inputs: [compiled(inputs.pop())], inputs=1)
        self._traced = traced(self._call, str(folder), "graph", [])
        self._folder = folder

    def _call(self, inputs):
        self.tree.device.step()
        return self._function(inputs)

    def __call__(self, x):
        """What the trace has: category, name and kernels of each event; and the result."""
        (y,) = self._traced([x])
        (file,) = [f for f in self._folder.iterdir() if not f.name.endswith(".compile.json")]
        events = json.loads(file.read_text())["traceEvents"]
        file.unlink()
        assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)
        return [(e["cat"], e["name"], e.get("args", {}).get("kernels")) for e in events], y


@pytest.fixture
def program(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    made = Program(tmp_path)
    yield made
    made.tree.native.shutdown()


def test_a_warm_up_has_its_steps_and_a_recording_and_a_replay_one_event_with_kernels(program):
    warmed_up, _ = program(torch.ones(8))
    assert [kind for kind, _, _ in warmed_up] == ["kernel", "run"]
    recorded, _ = program(torch.ones(8))
    assert recorded == [REPLAY]
    x = torch.randn(8)
    replayed, y = program(x)
    assert replayed == [REPLAY]
    torch.testing.assert_close(values(y), (x + 1).sin())
    report = program.tree.native.report()
    assert [report[name] for name in ("warm_ups", "recordings", "replays")] == [1, 1, 1]


def test_hooks_are_told_of_a_traced_replay_all_the_same(program):
    for _ in range(2):
        program(torch.ones(8))
    told = []
    with kiln.register_launch_hooks(lambda launch: told.append(launch.name)):
        assert program(torch.ones(8))[0] == [REPLAY]
    assert "kiln_graph_replay" in told


def test_what_a_hook_raises_ends_a_traced_replay_and_the_next_one_is_whole(program):
    for _ in range(2):
        program(torch.ones(8))

    def leave(launch):
        raise LookupError("of the hook")

    with kiln.register_launch_hooks(exit=leave), pytest.raises(LookupError, match="of the hook"):
        program(torch.ones(8))
    for file in program._folder.iterdir():
        file.unlink()
    assert program(torch.ones(8))[0] == [REPLAY]

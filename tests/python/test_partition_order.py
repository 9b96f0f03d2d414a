"""In which order a graph is cut, and what is logged of its parts, without a GPU."""

import types

import torch

from graph_stand_in import StandIn
from kiln import graph_trees
from test_graph_partitions import OPTIONS, Cut, traced


def test_by_an_option_steps_stay_where_they_are():
    def function(x, y):
        first = torch.linalg.inv(x)
        y = torch.linalg.inv(y)
        return torch.linalg.inv(first), torch.linalg.inv(y)

    module = traced(function, "cuda", "cpu")
    assert len(Cut(module).choice.parts) == 1
    stays = {**OPTIONS, "reorder_for_reducing_graph_partitions": False}
    cut = Cut(module, stays)
    assert len(cut.choice.parts) == 2


class _OfParts:
    """What a part is made of, of a graph that has `parts` of them."""

    def __init__(self, options, parts):
        self.device = torch.device("cuda", 0)
        self.choice = types.SimpleNamespace(options=options)
        self.graph_functions = []
        recipe = types.SimpleNamespace(steps=[], constants=[])
        facts = [{"mode": mode} for mode in parts]
        self.made = [graph_trees._function_of(list, recipe, one, self) for one in facts]


def test_each_recording_is_logged_with_its_part_and_mode(caplog):
    graph = _OfParts(OPTIONS, [0, 1, 2])
    device = StandIn()
    with caplog.at_level("DEBUG", logger="kiln"):
        for function in graph.made:
            device.record(function._program, [], [])
    assert [record.getMessage() for record in caplog.records] == [
        "Recording function=partition_0, mode=INFERENCE, cuda_graph_id=0,",
        "Recording function=partition_1, mode=FORWARD, cuda_graph_id=1,",
        "Recording function=partition_2, mode=BACKWARD, cuda_graph_id=2,",
    ]

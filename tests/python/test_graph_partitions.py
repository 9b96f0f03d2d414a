"""Parts of graphs that are device graphs: how a graph is cut, without a GPU."""

import random
from functools import partial

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import kiln
from kiln import graph_partitions, graph_trees
from kiln.compiled_graph import recording
from kiln.cpu_scalars import SCALARS_TO
from kiln.eager_segment import EagerSegment
from kiln.fx_export import Segment, export
from kiln.graph_choice import Choice, Chooser
from kiln.plain_recipe import from_plain, plain_of
from kiln.program import make_program
from kiln.recipe import write_eager, write_recipe
from kiln.run_seeds import draw_on_host
from kiln.steps import make_plan

OPTIONS = {**kiln.config.snapshot(), "cudagraphs": True}


def traced(function, *devices):
    """The ATen graph of a function of tensors on these devices."""
    getattr(torch._C, "_ensureCUDADeviceGuardSet", lambda: None)()
    with FakeTensorMode(allow_non_fake_inputs=True):
        inputs = [torch.empty(4, 4, device=device) for device in devices]
        module = make_fx(function)(*inputs)
    (output,) = module.graph.find_nodes(op="output")
    if not isinstance(output.args[0], (list, tuple)):
        output.args = ([output.args[0]],)
    return module


class Cut:
    """A module as it is compiled: plan, reasons, recipe and choice."""

    def __init__(self, module, options=OPTIONS, refused=(), cutter=None):
        self.choice = Chooser(options).choose(module, "inference")
        if self.choice is None or self.choice.facts is None:
            self.choice = Choice({"mode": 0, "static": [], "skip": None}, options)
        self.plan = make_plan(module.graph, dict.fromkeys(refused, "of the test"), None, False, True)
        self.reasons = (cutter or self.choice.cut)(self.plan)
        exported = [export(str(i), s, None) for i, s in enumerate(self.plan.segments)]
        self.recipe = write_recipe(module, self.plan, exported)
        self.choice.take_parts(self.plan, self.reasons, self.recipe, module)
        self.stands = [
            EagerSegment("test", partial(write_eager, segment, one.symbols))
            for segment, one in zip(self.plan.segments, exported)
        ]

    def names(self, part):
        """Of the operators of a part's steps."""
        steps = self.plan.steps[part["start"] : part["stop"]]
        return [str(n.target) for s in steps for n in graph_partitions._nodes_of(s)]


def on_the_cpu_between(x, y):
    z = (x + 1).cpu()
    return (z * y).cuda() + x.sin()


def test_what_is_on_the_cpu_cuts_a_graph():
    cut = Cut(traced(on_the_cpu_between, "cuda", "cpu"))
    reasons = [why for why in cut.reasons if why]
    assert reasons == ["DeviceCopy ops", "cpu ops", "DeviceCopy ops"]
    first, second = cut.choice.parts
    assert cut.choice.device_graphs == 2
    assert any("cpu" in words and words.startswith("aten.") for words in cut.choice.cuts)
    assert first["start"] == 0 and second["stop"] == len(cut.recipe.steps)
    assert first["facts"]["names"] == ["x_1"]
    assert first["facts"]["tensors"] == [0]
    assert "aten.add.Tensor" in cut.names(second)
    assert cut.choice.skip is None


def test_without_partitions_the_same_graph_is_none():
    chooser = Chooser({**OPTIONS, "graph_partition": False})
    choice = chooser.choose(traced(on_the_cpu_between, "cuda", "cpu"), "inference")
    assert choice.device_graphs == 0
    assert choice.skip.startswith("skipping cudagraphs due to cpu device (")


def test_a_graph_that_nothing_cuts_is_one():
    cut = Cut(traced(lambda x: torch.linalg.inv(x * 2) + 1, "cuda"))
    assert cut.choice.parts is None
    assert cut.reasons == [None] * len(cut.plan.steps)


def test_steps_that_can_be_captured_come_together():
    def interleaved(x, y):
        first = torch.linalg.inv(x)
        y = y + 1
        second = torch.linalg.inv(first)
        y = y * 2
        return torch.linalg.inv(second), y.sin()

    cut = Cut(traced(interleaved, "cuda", "cpu"))
    (part,) = cut.choice.parts
    assert cut.names(part).count("aten.linalg_inv_ex.default") == 3
    assert sum(why is None for why in cut.reasons) == part["stop"] - part["start"]


def custom(name, **options):
    operator = torch.library.custom_op(f"graph_partitions::{name}", mutates_args=(), **options)

    @operator
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    doubled.register_fake(torch.empty_like)
    return doubled


@pytest.mark.parametrize("listed", ["", ".default"])
def test_operators_that_are_listed_cut(listed):
    operator = custom(f"listed{len(listed)}")
    module = traced(lambda x: operator(x + 1) + 1, "cuda")
    by_pytorch = [f"listed{len(listed)}"]
    assert Cut(module, refused=by_pytorch).choice.parts is None
    name = operator._qualname + listed
    cut = Cut(module, {**OPTIONS, "custom_should_partition_ops": (name,)}, by_pytorch)
    assert len(cut.choice.parts) == 2
    assert [why for why in cut.reasons if why] == [f"custom partition op: {operator._opoverload}"]


def test_operators_that_say_they_are_unsafe_cut():
    operator = custom("unsafe", tags=(torch.Tag.cudagraph_unsafe,))
    cut = Cut(traced(lambda x: operator(x + 1) + 1, "cuda"), refused=["unsafe"])
    assert "CUDAGraph-unsafe custom ops" in cut.reasons
    assert len(cut.choice.parts) == 2


def test_sizes_found_in_data_cut():
    def function(x):
        return x.nonzero() * 2 + 1, x.cos()

    getattr(torch._C, "_ensureCUDADeviceGuardSet", lambda: None)()
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True):
        module = make_fx(function, tracing_mode="symbolic")(torch.empty(4, 4, device="cuda"))
    plan = make_plan(module.graph, {})
    reasons = graph_partitions.cut(plan, OPTIONS)
    assert "unbacked binding ops" in reasons


def functional(function, *devices):
    """As `traced`, as AOTAutograd gives it: an operator that writes is wrapped to write copies."""
    getattr(torch._C, "_ensureCUDADeviceGuardSet", lambda: None)()
    with FakeTensorMode(allow_non_fake_inputs=True):
        inputs = tuple(torch.empty(4, 4, device=device) for device in devices)
        return aot_export_joint_simple(function, inputs, trace_joint=False)


def adds_one(name, **options):
    operator = torch.library.custom_op(f"graph_partitions::{name}", mutates_args=["x"], **options)

    @operator
    def added(x: torch.Tensor) -> None:
        x.add_(1)

    return added


def test_an_operator_that_writes_and_says_it_is_unsafe_cuts():
    operator = adds_one("adds_one", tags=(torch.Tag.cudagraph_unsafe,))

    def function(x):
        y = x * 2
        operator(y)
        return [y.sin() + 1, y]

    module = functional(function, "cuda")
    cut = Cut(module)
    assert [why for why in cut.reasons if why] == ["CUDAGraph-unsafe custom ops"] * 2
    first, second = cut.choice.parts
    # What it wrote goes on into the second part.
    assert cut.names(first) == ["aten.mul.Tensor"]
    assert second["facts"]["names"] == ["getitem_1"]
    whole = Chooser({**OPTIONS, "graph_partition": False})
    assert "incompatible op graph_partitions.adds_one" in whole.choose(module, "inference").skip


def test_an_operator_that_writes_and_is_listed_cuts():
    operator = adds_one("adds_one_listed")

    def function(x):
        y = x * 2
        operator(y)
        return [y.sin()]

    module = functional(function, "cuda")
    assert Cut(module).choice.parts is None
    cut = Cut(module, {**OPTIONS, "custom_should_partition_ops": (operator._qualname,)})
    reason = f"custom partition op: {operator._opoverload}"
    assert [why for why in cut.reasons if why] == [reason] * 2
    assert len(cut.choice.parts) == 2


def test_an_operator_with_branches_cuts():
    def function(x, scale):
        y = x * 2
        z = torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))
        return z * scale

    cut = Cut(functional(lambda *inputs: [function(*inputs)], "cuda", "cuda"))
    assert {why for why in cut.reasons if why} == {"Conditional ops"}
    first, second = cut.choice.parts
    assert cut.names(first)[0] == "aten.mul.Tensor"
    assert cut.names(second) == ["aten.mul.Tensor"]
    # The predicate and the operand; the branches are nobody's tensors.
    assert len(first["facts"]["output_traces"]) == 2
    assert second["facts"]["tensors"] == [0, 1]


def finds_positives(name):
    operator = torch.library.custom_op(f"graph_partitions::{name}", mutates_args=())

    @operator
    def found(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]

    @found.register_fake
    def _(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    return found


@pytest.mark.parametrize("listed", ["", ".default"])
def test_sizes_of_operators_that_are_listed_cut_where_they_are_used(listed):
    found = finds_positives(f"found{len(listed)}")

    def function(x):
        return found(x) * 2, x.nonzero() + 3, torch.linalg.inv(x)

    getattr(torch._C, "_ensureCUDADeviceGuardSet", lambda: None)()
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True):
        module = make_fx(function, tracing_mode="symbolic")(torch.empty(4, 4, device="cuda"))

    def reasons(names):
        # Each operator is a step of its own.
        refused = {node.name: "of the test" for node in module.graph.nodes}
        plan = make_plan(module.graph, refused)
        options = {**OPTIONS, "cudagraph_unsafe_unbacked_ops": names}
        why = graph_partitions.cut(plan, options)
        return dict(zip((str(step.node.target) for step in plan.steps), why))

    without = reasons(())
    producers = [str(found._opoverload), "aten.nonzero.default"]
    assert [without[name] for name in producers] == ["unbacked binding ops"] * 2
    assert without["aten.mul.Tensor"] is None
    named = reasons((found._qualname + listed,))
    cut = {name: why for name, why in named.items() if why != without[name]}
    assert set(cut) == {"aten.mul.Tensor"}
    assert cut["aten.mul.Tensor"].startswith("uses cudagraph-unsafe unbacked symint: u")


def test_a_size_that_has_another_symbol_since_it_was_traced_again_cuts_too():
    found, modules = finds_positives("found_again"), []
    keep = aot_autograd(fw_compiler=lambda module, _: modules.append(module) or module)
    called = torch.compile(lambda x: found(x + 1) * 2, backend=keep)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        called(torch.rand(16))
    plan = make_plan(modules[0].graph, {})
    options = {**OPTIONS, "cudagraph_unsafe_unbacked_ops": ("graph_partitions::found_again",)}
    reasons = zip(plan.steps, graph_partitions.cut(plan, options))
    add, mul = [why for step, why in reasons if isinstance(step, Segment)]
    assert add is None
    assert mul.startswith("uses cudagraph-unsafe unbacked symint: u")


def test_a_part_of_static_and_written_inputs():
    def function(x, count, y):
        count.copy_(count + 1)
        return (x * count).cpu() + y, x.cos()

    module = traced(function, "cuda", "cuda", "cpu")
    cut = Cut(module)
    facts = cut.choice.parts[0]["facts"]
    names = facts["names"]
    assert [names[place] for place in facts["mutated"]] == ["count_1"]
    assert facts["mode"] == 0


def _random_function(seed):
    """Some operators, on what is there."""
    chance = random.Random(seed)

    def function(*inputs):
        values = list(inputs)
        for _ in range(12):
            kind = chance.randrange(4)
            one, other = chance.choice(values), chance.choice(values)
            if kind == 0:
                values.append(one + other)
            elif kind == 1:
                values.append(one.sin())
            elif kind == 2:
                values.append(torch.cumsum(one, 0) * other)
            else:
                values += torch.aminmax(one, dim=0, keepdim=True)
                values[-2:] = [value.expand(4, 4) + 0 for value in values[-2:]]
        if chance.randrange(2):
            inputs[0].copy_(chance.choice(values) * 0.5)  # at the end, as AOTAutograd has it
        return tuple(chance.sample(values[len(inputs) :], 3))

    return function


def _cut_at_random(plan, seed):
    """As graph_partitions.cut does, with reasons of its own."""
    chance = random.Random(seed)
    why = [chance.choice([None, None, "of the test"]) for _ in plan.steps]
    of_node = {}
    for number, step in enumerate(plan.steps):
        nodes = graph_partitions._nodes_of(step)
        if nodes[0].target is graph_partitions.operator.getitem:
            why[number] = of_node.get(nodes[0].args[0], why[number])
        of_node.update(dict.fromkeys(nodes, why[number]))
    waits = graph_partitions._waits(plan.steps)
    order = graph_partitions._order(waits, [one is None for one in why])
    assert sorted(order) == list(range(len(order)))
    plan.steps = [plan.steps[number] for number in order]
    return [why[number] for number in order]


@pytest.mark.parametrize("seed", range(40))
def test_a_graph_in_parts_gives_what_it_gives_as_a_whole(seed, monkeypatch):
    function = _random_function(seed)
    module = traced(_random_function(seed), "cpu", "cpu", "cpu")
    nodes = [n for n in module.graph.nodes if n.op == "call_function"]
    chance = random.Random(seed)
    refused = [node.name for node in nodes if chance.random() < 0.5]
    cut = Cut(module, refused=refused, cutter=lambda plan: _cut_at_random(plan, seed))
    ran = []

    def part(program, recipe, facts, graph):
        def run(inputs):
            ran.append(facts)
            assert len(inputs) == len(facts["names"]) == recipe.inputs
            results = program(inputs)
            assert inputs == []
            assert len(results) == len(facts["output_traces"])
            return results

        return run

    monkeypatch.setattr(graph_trees, "_part", part)
    graph = type("Graph", (), {"recipe": from_plain(plain_of(cut.recipe))})
    segments = [(None, stand) for stand in cut.stands]
    make = partial(make_program, draw=draw_on_host)
    torch.manual_seed(seed)
    inputs = [torch.rand(4, 4) for _ in range(3)]
    due_inputs, whole_inputs = [[x.clone() for x in inputs] for _ in range(2)]
    due = function(*due_inputs)
    whole = make(cut.recipe, [None] * len(segments), cut.stands)(list(whole_inputs))
    parts = cut.choice.parts or []
    run = graph_trees.graphed_in_parts(parts, graph, segments, make)
    for _ in range(2):
        ran.clear()
        part_inputs = [x.clone() for x in inputs]
        got = run(list(part_inputs))
        for results in (got + part_inputs, whole + whole_inputs):
            for one, other in zip(results, [*due, *due_inputs], strict=True):
                torch.testing.assert_close(one, other)
        assert [facts["names"] for facts in ran] == [p["facts"]["names"] for p in parts]


def scalars(function, *values):
    """The graph of a function of a tensor on a GPU and of numbers on the CPU."""
    getattr(torch._C, "_ensureCUDADeviceGuardSet", lambda: None)()
    with FakeTensorMode(allow_non_fake_inputs=True):
        inputs = [torch.empty(4, device="cuda"), *(torch.tensor(value) for value in values)]
        module = make_fx(function)(*inputs)
    (output,) = module.graph.find_nodes(op="output")
    if not isinstance(output.args[0], (list, tuple)):
        output.args = ([output.args[0]],)
    return module


def test_a_number_on_the_cpu_is_copied_once_and_cuts_nothing():
    module = scalars(lambda x, scale: (x * scale).sin() + scale, 2.0)
    cut = Cut(module)
    module.graph.lint()
    assert [why for why in cut.reasons if why] == ["DeviceCopy ops"]
    assert cut.reasons[0] == "DeviceCopy ops"
    (part,) = cut.choice.parts
    assert part["stop"] == len(cut.plan.steps)
    assert part["facts"]["tensors"] == [0, 1]


def test_numbers_on_the_cpu_are_copied_together_and_cut_nothing():
    module = scalars(lambda x, *numbers: (x * numbers[0] + numbers[1]) / numbers[2], 2.0, 3, True)
    cut = Cut(module)
    module.graph.lint()
    assert [str(n.target) for n in module.graph.nodes].count("kiln.scalars_to.default") == 1
    # The copy, and what takes each number of it.
    assert [why for why in cut.reasons if why] == ["DeviceCopy ops"] * 4
    assert cut.reasons[:4] == ["DeviceCopy ops"] * 4
    (part,) = cut.choice.parts
    assert part["stop"] == len(cut.plan.steps)
    assert part["facts"]["tensors"] == [0, 1, 2, 3]
    assert from_plain(plain_of(cut.recipe)).steps[0] == cut.recipe.steps[0]


def test_numbers_that_are_copied_together_are_what_they_were():
    given = [torch.tensor(2.5), torch.tensor(-3), torch.tensor(True), torch.tensor(7.0)]
    given += [torch.tensor(1.5, dtype=dtype) for dtype in (torch.float64, torch.bfloat16)]
    given.append(torch.complex(torch.tensor(0.0), torch.tensor(5.0)).conj().imag)  # negated when read
    assert given[-1].is_neg()
    moved = SCALARS_TO(given, torch.device("cpu"))
    for one, other in zip(moved, given, strict=True):
        assert torch.equal(one, other) and one.dtype == other.dtype and one.dim() == 0
        assert one.data_ptr() % 16 == 0
    assert len({one.untyped_storage().data_ptr() for one in moved}) == 1
    given[0].fill_(9)
    assert moved[0] == 2.5


def test_numbers_that_the_cpu_alone_reads_stay_there():
    def function(x, scale, other):
        return x * 2, scale * other, other

    module = scalars(function, 2.0, 3)
    Cut(module)
    targets = {str(node.target) for node in module.graph.nodes}
    assert "prims.device_put.default" not in targets


def test_a_number_that_is_written_is_written_where_it_is():
    def function(x, count):
        y = x + count
        count.copy_(count + 1)
        return y

    module = scalars(function, 2.0)
    cut = Cut(module)
    (copy,) = module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    assert copy.args[0].op == "placeholder"
    assert len(cut.choice.parts) == 1


def test_a_part_that_takes_what_nobody_knows_runs_without():
    module = traced(on_the_cpu_between, "cuda", "cpu")
    cut = Cut(module)
    assert len(cut.choice.parts) == 2
    moved = [n for n in module.graph.nodes if n.target is torch.ops.aten._to_copy.default][-1]
    moved.meta["val"] = None  # as of some operators that call another
    cut.choice.take_parts(cut.plan, cut.reasons, cut.recipe, module)
    assert len(cut.choice.parts) == 1


def test_a_part_that_gives_a_view_of_what_it_takes_runs_without():
    def function(x, weight):
        turned = weight.t()
        return (x @ turned).cpu().cuda() @ turned

    cut = Cut(traced(function, "cuda", "cuda"))
    given = [part["facts"]["names"] for part in cut.choice.parts]
    assert len(given) == 1


def test_order_leaves_as_few_parts_as_there_can_be():
    # Kinds by turns, and nothing waits: two runs.
    order = graph_partitions._order([set() for _ in range(6)], [True, False] * 3)
    assert order == [0, 2, 4, 1, 3, 5]
    # Each waits for the one before: as it was.
    chain = [{number - 1} if number else set() for number in range(6)]
    assert graph_partitions._order(chain, [True, False] * 3) == list(range(6))
    # What cannot be captured comes first where all else waits for it.
    assert graph_partitions._order([{1}, set(), set()], [True, False, False]) == [1, 2, 0]


def test_the_choice_of_a_graph_in_parts_is_plain_data():
    module = traced(on_the_cpu_between, "cuda", "cpu")
    cut = Cut(module)
    assert from_plain(plain_of(cut.choice.parts)) == cut.choice.parts


def test_graphs_on_the_cpu_have_no_choice():
    with recording() as graphs:
        torch.compile(lambda x: x + 1, backend="kiln", options={"cudagraphs": True})(torch.ones(2))
    assert graphs[0].choice is None


def test_a_view_of_an_input_is_made_where_it_is_read():
    operator = custom("between", tags=(torch.Tag.cudagraph_unsafe,))
    module = traced(lambda x, v, w: operator(x @ v.t()) @ w.t(), *["cuda"] * 3)
    parts = Cut(module, refused=["between"]).choice.parts
    assert [part["stop"] - part["start"] for part in parts] == [1, 1]

"""What kernels are named by: the option descriptive_names."""

import pytest
import torch
from torch._inductor import config as inductors_config
from torch.nn import functional as F

import kiln
from kiln import inductors_place

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    for standing in list(inductors_place._standing):
        standing.remove()


def launched(call):
    """The name and the symbol of each launch."""
    told = []
    with kiln.register_launch_hooks(lambda launch: told.append((launch.name, launch["symbol"]))):
        call()
    return told


def words_of(call):
    """What is between the kind of a kernel and its number, of all launches; symbols say the same."""
    found = []
    for name, symbol in launched(call):
        stem = name.rpartition("_")[0]
        assert symbol.rpartition("_")[0] == stem
        found.append(stem.split("_fused", 1)[1].removeprefix("_"))
    return found


def compiled_with(names, function, **words):
    return torch.compile(function, backend="kiln", options={"descriptive_names": names}, **words)


def scaled_softmax(x, y):
    return torch.softmax(x * y, -1)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("original_aten", "_softmax_mul"),
        ("torch", "mul_softmax"),
        ("inductor_node", "_softmax_mul"),
    ],
)
def test_each_mode_names_a_kernel_by_its_own_words(device, names, words):
    x, y = torch.randn(2, 8, 16, device=device)
    compiled = compiled_with(names, scaled_softmax)
    torch.testing.assert_close(compiled(x, y), scaled_softmax(x, y))
    assert set(words_of(lambda: compiled(x, y))) == {words}


def test_the_default_is_inductors():
    default = kiln.config.OPTIONS["descriptive_names"].default
    assert default == inductors_config.triton.descriptive_names == "original_aten"


def test_nodes_of_one_operator_are_told_apart_by_their_names(device):
    x = torch.randn(8, 16, device=device)
    compiled = compiled_with("inductor_node", lambda x: (x.sin() * 2).sin())
    compiled(x)
    assert words_of(lambda: compiled(x)) == ["mul_sin_sin_1"]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.activation = torch.nn.GELU()

    def forward(self, x):
        return F.dropout(self.activation(self.norm(x)), 0.5).sum(0)


def test_modules_and_functions_name_a_forward_and_its_backward(device):
    x = torch.randn(8, 16, device=device, requires_grad=True)
    compiled = compiled_with("torch", Block().to(device))
    compiled(x).sum().backward()
    results = []
    forward = words_of(lambda: results.append(compiled(x)))
    backward = words_of(lambda: results[0].sum().backward())
    functions = {"GELU", "LayerNorm", "dropout", "sum"}

    def are_in(words, ending):
        due = {f"{function}{ending}" for function in functions}
        return {one for one in due for word in words if one in word.split("_")}

    assert are_in(forward, "") == functions
    # Of the sum a backward has a view alone, which is no work.
    of_work = {"GELUbackward", "LayerNormbackward", "dropoutbackward"}
    assert of_work <= are_in(backward, "backward")
    # Nothing of what operators are taken apart into.
    taken_apart = {"rsqrt", "mean", "erf", "native"}
    assert not taken_apart & {part for word in forward + backward for part in word.split("_")}


def test_what_no_function_of_the_program_asked_for_adds_nothing(device):
    leaf = torch.randn(8, 16, device=device, requires_grad=True)
    # The two gradients of the input are added by autograd alone.
    compiled = compiled_with("torch", lambda x: x.sin() * x.cos())
    compiled(leaf).sum().backward()
    results = [compiled(leaf).sum()]
    words = "cos_cosbackward_mulbackward_sin_sinbackward"
    assert words_of(lambda: results[0].backward()) == [words]


def test_the_kind_of_a_kernel_is_that_of_its_operators(device):
    x, y = torch.randn(1, 64, device=device), torch.randn(64, 4, device=device)
    compiled = compiled_with("torch", lambda x, y: torch.matmul(x, y) * 2)
    compiled(x, y)
    assert [name for name, _ in launched(lambda: compiled(x, y))] == ["kiln_tem_fused_matmul_mul_0"]
    xs = [torch.randn(4, 4, device=device) for _ in range(3)]
    listed = compiled_with("torch", lambda xs: torch._foreach_add(xs, 1.0))
    listed(xs)
    assert [name.split("_")[1] for name, _ in launched(lambda: listed(xs))] == ["for"]


def test_operators_are_told_whatever_names_there_are(device):
    x, y = torch.randn(2, 8, 16, device=device)
    compiled = compiled_with("torch", scaled_softmax)
    compiled(x, y)
    told = set()
    with kiln.register_launch_hooks(lambda launch: told.update(launch["operators"])):
        compiled(x, y)
    assert told == {"_softmax", "mul"}


def test_two_modes_share_no_artifact(device):
    x, y = torch.randn(2, 8, 16, device=device)
    for names, words in (("torch", "mul_softmax"), ("original_aten", "_softmax_mul")):
        torch._dynamo.reset()
        compiled = compiled_with(names, scaled_softmax)
        compiled(x, y)
        assert set(words_of(lambda: compiled(x, y))) == {words}


def test_another_word_is_refused():
    with pytest.raises(ValueError, match="descriptive_names: found 'aten', expected original_aten, torch"):
        kiln.config.descriptive_names = "aten"


@pytest.mark.parametrize("place", ["options", "config"])
def test_inductors_option_counts_where_kiln_is_in_its_place(device, place):
    x, y = torch.randn(2, 8, 16, device=device)
    name = {"triton.descriptive_names": "torch"}
    with kiln.replace_inductor(), inductors_config.patch(name if place == "config" else {}):
        compiled = torch.compile(scaled_softmax, options=name if place == "options" else None)
        compiled(x, y)
    assert set(words_of(lambda: compiled(x, y))) == {"mul_softmax"}

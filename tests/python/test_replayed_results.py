"""Results of replays, which are the same tensors again, without a GPU."""

import weakref

import pytest
import torch

from graph_stand_in import Tree, values

pytestmark = pytest.mark.filterwarnings("error")  # a replay warns of nothing


class OfAGraph(torch.autograd.Function):
    """As AOTAutograd has autograd follow what a compiled graph gives."""

    @staticmethod
    def forward(context, x, give):
        return give()

    @staticmethod
    def backward(context, gradient):
        return gradient, None


@pytest.fixture
def one_result(monkeypatch):
    """A call of a tree's function that has been replayed, whose result nobody holds afterwards. It
    tells of the result as it was given, and first has ``then`` do something to it."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    tree = Tree()
    function = tree.add(lambda inputs: [inputs.pop() + 1], inputs=1)

    def give():
        tree.device.step()
        return function([torch.arange(4.0)])[0]

    def call(then=lambda y: None, trains=False):
        y = OfAGraph.apply(torch.ones(4, requires_grad=True), give) if trains else give()
        seen = tuple(y.shape), y.stride(), y.requires_grad, y.grad_fn is None, values(y).tolist()
        then(y)
        return weakref.ref(y), seen

    for _ in range(3):
        call()
    yield call
    assert tree.native.report()["recordings"] == 1
    tree.native.shutdown()


PLAIN = (4,), (1,), False, True, [1, 2, 3, 4]


@pytest.mark.parametrize("trains", [False, True])
def test_a_result_that_nobody_holds_is_given_again(one_result, trains):
    known, seen = one_result(trains=trains)
    again, seen_again = one_result(trains=trains)
    assert known() is not None and known() is again()
    assert seen == seen_again == (PLAIN if not trains else (*PLAIN[:2], True, False, PLAIN[4]))


@pytest.mark.parametrize(
    ("change", "trains"),
    [
        (lambda y: y.unsqueeze_(0), False),
        (lambda y: y.as_strided_((2,), (2,)), False),
        (lambda y: y.requires_grad_(), False),
        (lambda y: setattr(y, "grad", torch.ones(4)), False),
        (lambda y: y.unsqueeze_(0).squeeze_(0), True),
        (lambda y: y.retain_grad(), True),
    ],
    ids=["sizes", "strides", "leaf", "gradient", "operator", "kept gradient"],
)
def test_what_a_program_does_to_a_result_itself_is_of_that_result(one_result, change, trains):
    changed, _ = one_result(change, trains)
    for _ in range(2):
        assert one_result()[1] == PLAIN
    assert changed() is None

"""PyTorch's operator database, gradients: torch.compile(backend="kiln") against eager mode."""

import pytest

from operator_check import GRADIENTS, check, id_of

# What is not right, and why: "unfit" (eager mode has no gradient for a sample) or "refused".
EXCEPTIONS = {}


@pytest.mark.parametrize("op", GRADIENTS, ids=id_of)
def test_the_gradients_of_an_operator_are_those_of_eager_mode(op, tally):
    outcome = check(op, "gradients")
    tally(outcome)
    assert outcome.verdict == EXCEPTIONS.get(outcome.operator, "right"), outcome.why


def test_five_operators_in_a_hundred_may_be_refused_and_none_be_wrong():
    assert "wrong" not in EXCEPTIONS.values()
    assert EXCEPTIONS.keys() <= {id_of(op) for op in GRADIENTS}
    fit = len(GRADIENTS) - sum(verdict == "unfit" for verdict in EXCEPTIONS.values())
    assert sum(verdict == "refused" for verdict in EXCEPTIONS.values()) <= 0.05 * fit

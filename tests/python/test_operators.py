"""PyTorch's operator database, forward: torch.compile(backend="kiln") against eager mode."""

import pytest

from operator_check import FORWARD, check, id_of

# What is not right: "unfit" (eager mode runs no sample here: these are CUDA's alone) or "refused".
EXCEPTIONS = {
    "jiterator_2inputs_2outputs": "unfit",
    "jiterator_4inputs_with_extra_args": "unfit",
    "jiterator_binary": "unfit",
    "jiterator_binary_return_by_ref": "unfit",
    "jiterator_unary": "unfit",
}


@pytest.mark.parametrize("op", FORWARD, ids=id_of)
def test_an_operator_gives_what_eager_mode_gives(op, tally):
    outcome = check(op, "forward")
    tally(outcome)
    assert outcome.verdict == EXCEPTIONS.get(outcome.operator, "right"), outcome.why


def test_two_operators_in_a_hundred_may_be_refused_and_none_be_wrong():
    assert "wrong" not in EXCEPTIONS.values()
    assert EXCEPTIONS.keys() <= {id_of(op) for op in FORWARD}
    fit = len(FORWARD) - sum(verdict == "unfit" for verdict in EXCEPTIONS.values())
    assert sum(verdict == "refused" for verdict in EXCEPTIONS.values()) <= 0.02 * fit

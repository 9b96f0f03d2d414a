"""When compiles cannot be had any more a program goes on in PyTorch, and says so once."""

import pytest
import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

import kiln
from kiln import recipe
from kiln.expressions import plain_expression
from kiln.torch_inside import keeps_any_backend
from processes import answer_of, start

# Compiles for aligned inputs with a daemon; then neither it nor a worker is there, and inputs come
# that are aligned otherwise.
LOST = """
import json, os, signal, subprocess, sys, warnings
import torch, torch.nn.functional as F
import kiln
from kiln import service
program = service.program
service.program = lambda name: "/nowhere/" + name if name == "kiln-worker" else program(name)

def fn(x, w):
    return F.gelu(x * w + 1).sum(-1) * x.shape[0]

called = torch.compile(fn, backend="kiln", dynamic=True)
w = torch.randn(16, requires_grad=True)
def step(f, x):
    w.grad = None
    y = f(x, w)
    y.sum().backward()
    return y.detach(), w.grad

step(called, torch.randn(6, 16))
folder = os.environ["KILN_CACHE_DIR"]
words = ["pgrep", "-f", f"kilnd .*--data-folder {folder}"]
pids = subprocess.run(words, capture_output=True, text=True)
for pid in pids.stdout.split(): os.kill(int(pid), signal.SIGKILL)
service.program = lambda name: "/nowhere/" + name
told, said = [], ""
shifted = torch.randn(6 * 16 + 1)[1:].view(6, 16)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    try:
        for x in (shifted, shifted, torch.randn(6, 16)):
            torch.testing.assert_close(step(called, x), step(fn, x))
    except kiln.KilnError as error:
        said = str(error)
told = [(str(w.message), w.filename) for w in seen if "kiln" in str(w.message)]
print(json.dumps({"told": told, "said": said, **kiln.counters}))
"""


@pytest.mark.parametrize("start_of", ["cold", "warm"])
def test_inputs_for_which_nothing_can_be_compiled_any_more_are_pytorchs_after_one_warning_a_graph(
    folders, start_of
):
    if start_of == "warm":
        answer_of(start(LOST, KILN_STRICT="0", **folders))
    done, _ = answer_of(start(LOST, KILN_STRICT="0", **folders))
    assert done["said"] == ""
    assert done["eager_graphs"] == len(done["told"]) >= 1
    for words, place in done["told"]:
        assert "runs in eager mode for some inputs" in words and "NO_TOOLCHAIN" in words
        assert place == "<string>"  # the program's own line
    if start_of == "warm" and keeps_any_backend():
        assert done["cache_hit"] == 2


def test_inputs_for_which_nothing_can_be_compiled_any_more_are_an_error_when_strict(folders):
    done, _ = answer_of(start(LOST, KILN_STRICT="1", **folders))
    assert done["said"].startswith("NO_TOOLCHAIN: ")
    assert "eager_graphs" not in done


def test_an_error_of_kilns_reads_as_a_sentence(refused_options):
    assert str(kiln.KilnError(3, "BAD_OPTION", "an option: 5, expected 4")) == (
        "BAD_OPTION: an option: 5, expected 4"
    )
    assert str(kiln.KilnError(14, "", "no daemon")) == "no daemon"
    with pytest.raises(kiln.KilnError, match="^BAD_OPTION: .*max_fusion_size"):
        torch.compile(lambda x: x + 1, backend="kiln", options=refused_options)(torch.ones(3))


def test_a_size_of_a_host_kernel_is_computed_without_sympy(monkeypatch):
    s, t = sympy.Symbol("s0", integer=True), sympy.Symbol("s1", integer=True)
    expression = plain_expression(sympy.Max(FloorDiv(s * t, 3), s + 1), [s, t])
    sized = recipe.Sized(expression, (recipe.Source(0), recipe.Source(1, "size", 1)))
    size = recipe.bound(sized)
    for name in ("xreplace", "subs", "doit"):
        monkeypatch.setattr(sympy.Basic, name, lambda *_: pytest.fail("sympy in a call"))
    assert size.get([7, torch.empty(2, 5)]) == 11
    assert size.get([2, torch.empty(2, 3)]) == 3


NO_DAEMON = """
import json, warnings, torch
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    torch.compile(lambda x: x * 3 + 1, backend="kiln")(torch.ones(3))
print(json.dumps([(str(w.message), w.filename, w.lineno) for w in seen if "kiln" in str(w.message)]))
"""


def test_a_warning_of_a_compile_beside_the_program_names_the_programs_line(folders):
    told, _ = answer_of(start(NO_DAEMON, KILN_ADDR="unix:/nowhere/kilnd.sock", **folders))
    ((words, file, line),) = told
    assert "no daemon answers" in words
    assert (file, line) == ("<string>", 5)

"""One operator of PyTorch's database under ``backend="kiln"`` against eager mode.

    outcome = check_forward(op)           # or check_gradients(op)
    outcome.verdict                       # "right", "wrong", "refused", "unfit"

The real road: ``torch.compile(fn, backend="kiln", fullgraph=True)`` with KILN_STRICT=1, the first
three samples. ``fullgraph`` is given up where PyTorch's own tracing cannot make one graph either.
"""

import copy
import itertools
import traceback
import warnings
from dataclasses import asdict, dataclass, field

import torch
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db

from kiln.compiled_graph import recording

# The database calls random operators with a seed of its own, which Dynamo cannot trace; ours is set
# from outside.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)

SAMPLES = 3
FORWARD = [op for op in op_db if torch.float32 in op.dtypes]
GRADIENTS = [
    op
    for op in FORWARD
    if op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cpu")
]


def id_of(op):
    """The operator's name in tests and tallies."""
    return f"{op.name}-{op.variant_test_name}" if op.variant_test_name else op.name


@dataclass
class Outcome:
    """What became of an operator's samples; of a bad one, the first of the worst."""

    operator: str
    kind: str  # "forward", "gradients"
    verdict: str = "unfit"  # no sample that eager mode itself can run
    why: str = ""
    samples: int = 0
    broken: int = 0  # samples that ran in more than one graph: Dynamo's own limits
    graphs: int = 0
    hosts: list[str] = field(default_factory=list)  # why PyTorch ran what it ran

    def as_dict(self):
        return asdict(self)


def _copy(tensor, known):
    strided = tensor.layout == torch.strided
    return copy.deepcopy(tensor, known) if strided else tensor.clone()


class _Call:
    """A sample as a function of its tensors."""

    def __init__(self, op, sample):
        self._op = op
        self._process = sample.output_process_fn_grad
        tree = ((sample.input, *sample.args), sample.kwargs)
        self._values, self._spec = pytree.tree_flatten(tree)
        self._places = [i for i, v in enumerate(self._values) if isinstance(v, torch.Tensor)]
        self.tensors = [self._values[place] for place in self._places]

    def fresh(self):
        """The tensors with memory of their own, and the layouts and aliases they came with."""
        known = {}
        return [
            _copy(tensor.detach(), known).requires_grad_(tensor.requires_grad)
            for tensor in self.tensors
        ]

    def __call__(self, *tensors):
        values = list(self._values)
        for place, tensor in zip(self._places, tensors):
            values[place] = tensor
        args, kwargs = pytree.tree_unflatten(values, self._spec)
        return self._op.op(*args, **kwargs)

    def gradients(self, fn):
        """What flows back through `fn` to the tensors that ask for it; None without any. Results
        are weighed, since the plain sum of a softmax has no gradient."""
        tensors = self.fresh()
        asking = [t for t in tensors if t.requires_grad]
        results = self._process(fn(*tensors))
        results = [
            torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
            for t in pytree.tree_leaves(results)
            if isinstance(t, torch.Tensor) and t.requires_grad
        ]
        if not results or not asking:
            return None
        weights = [
            torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).reshape(t.shape) for t in results
        ]
        return torch.autograd.grad(results, asking, weights, allow_unused=True)


def _eager_gives(run):
    """(results, whether they are equal whatever the seed)."""
    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        seen.append(run())
    a, b = (pytree.tree_leaves(results) for results in seen)
    return seen[0], all(map(_equal, a, b))


def _comparable(tensor):
    """The values of a tensor in a form that PyTorch compares."""
    tensor = tensor if tensor.layout == torch.strided else tensor.to_dense()
    return tensor.to(torch.complex64) if tensor.dtype == torch.complex32 else tensor


def _equal(x, y):
    """Whether two results are the same, NaN being NaN."""
    if not isinstance(x, torch.Tensor):
        return x == y or x != x
    x, y = _comparable(x), _comparable(y)
    return x.shape == y.shape and bool(((x == y) | (x != x)).all())


def _compare(got, due, values, gradients):
    """AssertionError where results differ. The layout of a gradient is AOTAutograd's choice."""
    got, due = pytree.tree_leaves(got), pytree.tree_leaves(due)
    assert len(got) == len(due), f"found {len(got)} results, expected {len(due)}"
    for mine, theirs in zip(got, due):
        if not isinstance(theirs, torch.Tensor):
            assert type(mine) is type(theirs), f"found {type(mine)}, expected {type(theirs)}"
            if values:
                assert mine == theirs or mine != mine, f"found {mine}, expected {theirs}"
            continue
        found = (mine.dtype, mine.shape, mine.layout, mine.requires_grad)
        expected = (theirs.dtype, theirs.shape, theirs.layout, theirs.requires_grad)
        assert found == expected, f"found {found}, expected {expected}"
        if values:
            atol = 1e-4 if gradients else 1e-5
            near = {"rtol": 1e-4, "atol": atol, "equal_nan": True}
            torch.testing.assert_close(_comparable(mine), _comparable(theirs), **near)
        if not gradients and theirs.layout == torch.strided and theirs.numel() > 1:
            assert mine.stride() == theirs.stride(), f"{mine.stride()}, expected {theirs.stride()}"


def _makes_one_graph(call):
    try:
        make_fx(call, tracing_mode="fake")(*call.fresh())
    except Exception:  # whatever stops PyTorch's own tracing
        return False
    return True


def _dynamo_makes_one_graph(call):
    torch._dynamo.reset()
    try:
        torch.compile(lambda *t: call(*t), backend="eager", fullgraph=True)(*call.fresh())
    except Exception:  # Dynamo's own limits, in many classes
        return False
    return True


class _Runner:
    def __init__(self, op, kind):
        self._op = op
        self._gradients = kind == "gradients"
        self.outcome = Outcome(id_of(op), kind)

    def _run(self, call, options, fullgraph):
        torch._dynamo.reset()
        torch.manual_seed(1)

        def fn(*tensors):
            return call(*tensors)

        compiled = torch.compile(fn, backend="kiln", fullgraph=fullgraph, options=options)
        with recording() as graphs:
            got = call.gradients(compiled) if self._gradients else compiled(*call.fresh())
        self.outcome.graphs += len(graphs)
        for graph in graphs:
            if options is None:
                self.outcome.hosts += graph.hosts.values()
        return got

    def _sample(self, call):
        def eager():
            return call.gradients(call) if self._gradients else call(*call.fresh())

        try:
            due, fixed = _eager_gives(eager)
        except Exception:  # not a sample that eager mode can run
            return
        if due is None:
            return
        self.outcome.samples += 1
        fullgraph = _makes_one_graph(call)
        try:
            got = self._run(call, None, fullgraph)
        except Exception:  # a backend's errors, and some of Dynamo's, are of any class
            if not fullgraph or _dynamo_makes_one_graph(call):
                raise
            fullgraph = False
            got = self._run(call, None, fullgraph)
        self.outcome.broken += not fullgraph
        known = "empty" not in self._op.name  # values that anybody can tell
        _compare(got, due, known and fixed, self._gradients)
        if known and not fixed:  # eager mode's own numbers, where they are asked for
            got = self._run(call, {"fallback_random": True}, fullgraph)
            _compare(got, due, True, self._gradients)

    def run(self):
        samples = self._op.sample_inputs("cpu", torch.float32, requires_grad=self._gradients)
        for number, sample in enumerate(itertools.islice(samples, SAMPLES)):
            try:
                self._sample(_Call(self._op, sample))
            except AssertionError as error:
                return self._end("wrong", number, error)
            except Exception as error:  # what a backend raises comes wrapped by Dynamo
                return self._end("refused", number, error)
        if self.outcome.samples:
            self.outcome.verdict = "right"
        return self.outcome

    def _end(self, verdict, number, error):
        self.outcome.verdict = verdict
        words = "".join(traceback.format_exception_only(error))
        self.outcome.why = f"sample {number}: {words}"[:2000]
        return self.outcome


def check(op, kind):
    """Runs an operator's samples; never raises for what comes out of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Runner(op, kind).run()

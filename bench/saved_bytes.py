"""Bytes that a forward saves for its backward: Kiln, Inductor, and Kiln without each decomposition.

    python bench/saved_bytes.py [MODEL...] [--device cpu|cuda] [--each] [--list]

Nothing is compiled or run: Dynamo and AOTAutograd trace a training step, each side's own passes and
cut are done, and the tensors that the cut saves are counted, each storage once; parameters, other
inputs and results of the forward, which live anyway, are not. `--each` also takes one decomposition
at a time from the list of kiln/backend.py; `--list` names the largest saved tensors of both sides.
A MODEL is one of MODELS below, or of tests/python/model_zoo.py, with dropout.
"""

from __future__ import annotations

import argparse
import collections
import copy
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch
import torch._inductor.compile_fx
from torch import fx

import kiln.backend
import kiln.config
import kiln.partition

MIB = 2**20
# The smallest part of all saved bytes that --list names: one in so many.
_SHARE = 2000


def _language_model(model_class: str, config: str, rows: int, length: int):
    def make(device: str):
        import transformers

        made = getattr(transformers, config)()
        made.use_cache = False
        if device == "cpu":
            # Otherwise attention keeps its scores, in float32, which it does on no GPU.
            made.attn_pdrop = made.attention_probs_dropout_prob = 0.0
        model = getattr(transformers, model_class)(made).to(torch.bfloat16).to(device).train()
        ids = torch.randint(0, made.vocab_size, (rows, length), device=device)
        return lambda called: called(input_ids=ids, labels=ids).loss, model

    return make


def _resnet50(device: str):
    import torchvision

    model = torchvision.models.resnet50().to(device).train()
    images = torch.randn(64, 3, 224, 224, device=device)
    labels = torch.randint(0, 1000, (64,), device=device)

    def loss(called):
        with torch.autocast(device, torch.bfloat16):
            return torch.nn.functional.cross_entropy(called(images), labels)

    return loss, model


# Those of bench/torch_compile.py that train.
MODELS = {
    "gpt2": _language_model("GPT2LMHeadModel", "GPT2Config", 8, 1024),
    "bert": _language_model("BertForMaskedLM", "BertConfig", 16, 512),
    "resnet50": _resnet50,
}



def _of_the_zoo(name: str):
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "python"))
    from model_zoo import zoo

    def make(device: str):
        case = zoo()[name]()
        for module in case.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.1
        return lambda called: case.loss(called, case.batch), case.model

    return make


Saved = list[tuple[str, torch.Tensor]]


class _Cut(Exception):
    """Ends a compile where the graph has been cut; `saved` is what the forward gives beside its
    results."""

    def __init__(self, saved: Saved) -> None:
        super().__init__("the graph has been cut")
        self.saved = saved


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _saved_of(forward: fx.GraphModule, num_fwd_outputs: int) -> Saved:
    (output,) = forward.graph.find_nodes(op="output")
    results = output.args[0]
    alive = [*forward.graph.find_nodes(op="placeholder"), *results[:num_fwd_outputs]]
    values = [node.meta["val"] for node in alive if isinstance(node, fx.Node)]
    seen = {_storage(value) for value in values if isinstance(value, torch.Tensor)}
    saved = []
    for node in results[num_fwd_outputs:]:
        value = node.meta["val"]
        if isinstance(value, torch.Tensor) and _storage(value) not in seen:
            seen.add(_storage(value))
            saved.append((f"{node.name} <- {node.target}", value))
    return saved


def _ending(real_cut: Callable) -> Callable:
    def cut(joint, inputs, *args, num_fwd_outputs, **others):
        forward, _ = real_cut(joint, inputs, *args, num_fwd_outputs=num_fwd_outputs, **others)
        raise _Cut(_saved_of(forward, num_fwd_outputs))

    return cut


def _through(owner: object, compile_: Callable[[], object]) -> Saved:
    """What is saved when `compile_` cuts its graph by the function that `owner` has."""
    name = "min_cut_rematerialization_partition"
    with mock.patch.object(owner, name, _ending(getattr(owner, name))):
        try:
            compile_()
        except Exception as error:
            while error is not None:
                if isinstance(error, _Cut):
                    return error.saved
                error = error.__cause__ or error.__context__
            raise
    raise RuntimeError("the graph was not cut: nothing in it needs a backward")


def _inductor(module: fx.GraphModule, inputs: list) -> Saved:
    owner = torch._inductor.compile_fx
    return _through(owner, lambda: owner.compile_fx(module, inputs))


def _kiln(module: fx.GraphModule, inputs: list, decompositions: dict) -> Saved:
    with mock.patch.object(kiln.backend, "_DECOMPOSED", decompositions):
        compile_ = lambda: kiln.backend._aot(module, module, inputs, kiln.config.snapshot())  # noqa: E731
        return _through(kiln.partition, compile_)


def _by_operator() -> dict[str, dict]:
    """Kiln's decompositions, by the operator that they take apart."""
    parts: dict[str, dict] = collections.defaultdict(dict)
    for overload, function in kiln.backend._DECOMPOSED.items():
        parts[str(overload).rpartition(".")[0]][overload] = function
    return parts


def measure(name: str, device: str, each: bool) -> dict[str, Saved]:
    """{who: what is saved} for one model. Graphs of a step that broke are added up."""
    loss, model = (MODELS.get(name) or _of_the_zoo(name))(device)
    found: dict[str, Saved] = collections.defaultdict(list)
    whole = kiln.backend._DECOMPOSED

    def backend(module: fx.GraphModule, inputs: list) -> Callable:
        def fresh() -> fx.GraphModule:
            return fx.GraphModule(module, copy.deepcopy(module.graph))

        found["inductor"] += _inductor(fresh(), inputs)
        found["kiln"] += _kiln(fresh(), inputs, whole)
        found["kiln without the list"] += _kiln(fresh(), inputs, {})
        for operator, part in _by_operator().items() if each else ():
            rest = {k: v for k, v in whole.items() if k not in part}
            found[f"  without {operator}"] += _kiln(fresh(), inputs, rest)
        return lambda *args: (_ for _ in ()).throw(_Cut([]))

    torch._dynamo.reset()
    try:
        loss(torch.compile(model, backend=backend))
    except _Cut:
        pass
    return found


def _bytes(saved: Saved) -> int:
    return sum(value.untyped_storage().nbytes() for _, value in saved)


def print_largest(who: str, saved: Saved) -> None:
    groups = collections.defaultdict(list)
    for name, value in saved:
        words = str(value.dtype).removeprefix("torch.") + str(list(value.shape))
        groups[words, value.untyped_storage().nbytes()].append(name)
    print(f"{who}:")
    for (words, size), names in sorted(groups.items(), key=lambda item: -item[0][1] * len(item[1])):
        if size * len(names) * _SHARE >= _bytes(saved):
            print(f"  {size * len(names) / MIB:10.2f} MiB  {len(names):3} x {words:32} {names[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--each", action="store_true", help="without each decomposition too")
    parser.add_argument("--list", action="store_true", help="the largest saved tensors")
    options = parser.parse_args()
    for name in options.models:
        found = measure(name, options.device, options.each)
        peer = _bytes(found["inductor"])
        for who, saved in found.items():
            size = _bytes(saved)
            print(f"{name:9} {who:50} {size / MIB:10.2f} MiB {size / peer:6.3f}", flush=True)
        if options.list:
            for who in ("inductor", "kiln"):
                print_largest(f"{name}, {who}", found[who])


if __name__ == "__main__":
    main()

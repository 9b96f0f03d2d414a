"""FX nodes of an ATen graph as a serialized kiln.wire.Graph.

    segment = Segment(nodes, inputs, outputs)
    exported = export("forward", segment, shape_env, names)  # the option descriptive_names
    exported.graph                   # bytes
    exported.symbols                 # what each call passes by value after the tensors

A segment is a run of operator nodes with the nodes whose tensors go in and come out; a graph that
Kiln compiles whole is one segment. Symbolic integers are no nodes on the wire: where one is used
its expression stands.

What is decided here: which layouts the graph names. An input's address is that of its first
element, wherever in its storage it lies, so its storage offset is none of the graph's, and views at
other offsets are one graph. An operator that counts from the storage's start (_counts_from_storage)
needs the offsets: then those of the inputs stand as they are.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

import sympy
import torch
from torch import fx

from . import wire
from .kernel_words import BY_OPERATORS, kernel_words
from .symbols import SymbolTable, atoms_of, expression_of, is_atom
from .telling import is_inside
from .torch_inside import last_frame
from .words import Unsupported, device_number, dtype_number, memory_format_number

# What PyTorch's allocators promise of an address, in bytes, and the wire takes.
_ALLOCATOR_ALIGNMENT = 16
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass
class Segment:
    """A part of a graph that is compiled as one. Inputs and outputs are tensors' nodes; of inputs that
    are donated nobody else reads the memory."""

    nodes: list[fx.Node] = field(default_factory=list)
    inputs: list[fx.Node] = field(default_factory=list)
    outputs: list[fx.Node] = field(default_factory=list)
    donated: set[fx.Node] = field(default_factory=set)


@dataclass
class Exported:
    """A wire graph. A call's inputs: the segment's, then the value of each of ``symbols``."""

    graph: bytes
    symbols: list[sympy.Expr]  # atoms (symbols.py)
    has_random: bool
    nodes: list[fx.Node]  # those that became the wire's, in order


def value_of(node: fx.Node) -> object:
    """The fake tensor, symbolic integer or list of those that a node gives."""
    return node.meta.get("val")


def is_symbolic(node: fx.Node) -> bool:
    """Whether a node gives an integer that sizes are made of."""
    return isinstance(value_of(node), (int, *_SYMBOLIC)) and not isinstance(value_of(node), bool)


def line_of(node: fx.Node) -> str:
    """The last line of the user's that an operator comes from, "model.py:12 in forward", else the
    last of all; "" where none is known."""
    trace = node.meta.get("stack_trace")
    return (last_frame(trace, is_inside) or last_frame(trace)) if trace else ""


def is_random(node: fx.Node) -> bool:
    """Whether an operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def is_assertion(node: fx.Node) -> bool:
    """Whether an operator only ends the run where what it is given does not hold."""
    return getattr(node.target, "overloadpacket", None) is torch.ops.aten._assert_async


def atoms_in(value: object) -> set[sympy.Expr]:
    """The atoms (symbols.py) of the sizes and strides of a tensor, or of a symbolic integer."""
    if isinstance(value, torch.Tensor):
        parts = [*value.size(), *value.stride()]
    elif isinstance(value, (list, tuple)):
        return set().union(*map(atoms_in, value))
    else:
        parts = [value]
    found: set[sympy.Expr] = set()
    for part in parts:
        if isinstance(part, torch.SymInt):
            found |= atoms_of(part.node.expr)
    return found


def check_tensor(tensor: torch.Tensor) -> None:
    """Unsupported, with the ground, for a tensor that Kiln cannot compute with."""
    if tensor.layout != torch.strided:
        raise Unsupported(f"layout {str(tensor.layout).removeprefix('torch.')}")
    dtype_number(tensor.dtype)
    device_number(tensor.device)
    if tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        raise Unsupported("a quantized tensor, or a view that conjugates or negates")


def _counts_from_storage(node: fx.Node) -> bool:
    """Whether an operator takes a place in the storage of its operand, as ``as_strided`` does."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    names = [argument.name for argument in node.target._schema.arguments]
    if "storage_offset" not in names:
        return False
    place = names.index("storage_offset")
    given = node.args[place] if place < len(node.args) else node.kwargs.get("storage_offset")
    return given is not None


class _Exporter:
    def __init__(self, segment: Segment, shape_env: object | None) -> None:
        self._segment = segment
        self._symbols = SymbolTable(shape_env)
        self._next = 0
        self._named: dict[fx.Node, bytes] = {}
        self._several: dict[fx.Node, list[bytes]] = {}
        self._device: torch.device | None = None
        self._names_offsets = any(map(_counts_from_storage, segment.nodes))
        self.has_random = False
        self._written: list[fx.Node] = []

    def export(self, name: str, names: str) -> Exported:
        segment = self._segment
        missing = self._number_symbols()
        inputs = [self._input(node) for node in segment.inputs]
        inputs += [self._scalar(symbol) for symbol in missing]
        nodes = [message for node in segment.nodes for message in self._node(node)]
        outputs = [self._output(node) for node in segment.outputs]
        graph = (
            wire.text(1, name)
            + wire.each(2, self._symbols.messages())
            + wire.each(3, inputs)
            + wire.each(5, nodes)
            + wire.each(6, outputs)
            + wire.each(7, map(str.encode, kernel_words(self._written, names)))
        )
        return Exported(graph, missing, self.has_random, self._written)

    def _number_symbols(self) -> list[sympy.Expr]:
        """Numbers all symbols; gives those that no input has bare, to be passed by value."""
        used: dict[sympy.Expr, None] = {}
        bare: set[sympy.Expr] = set()
        for node in self._segment.inputs:
            tensor = value_of(node)
            for part in (*tensor.size(), *tensor.stride()):
                if isinstance(part, torch.SymInt):
                    expr = part.node.expr
                    used |= dict.fromkeys(sorted(atoms_of(expr), key=str))
                    if is_atom(expr):
                        bare.add(expr)
            # Of which a call has none: it has addresses.
            used |= dict.fromkeys(sorted(atoms_in(self._offset(tensor)), key=str))
        for node in self._segment.nodes:
            for value in (value_of(node), *map(value_of, node.all_input_nodes)):
                used |= dict.fromkeys(sorted(atoms_in(value), key=str))
        self._symbols.add(used)
        return [symbol for symbol in used if symbol not in bare]

    def _offset(self, tensor: torch.Tensor) -> int | torch.SymInt:
        """What the graph says of where an input lies in its storage."""
        return tensor.storage_offset() if self._names_offsets else 0

    def _meta(self, tensor: torch.Tensor, offset: int | torch.SymInt = 0) -> bytes:
        check_tensor(tensor)
        if self._device is None:
            self._device = tensor.device
        if tensor.device != self._device:
            raise Unsupported(f"tensors on {self._device} and {tensor.device}")
        return (
            wire.uint(1, dtype_number(tensor.dtype))
            + wire.each(2, map(self._symbols.expr, tensor.size()))
            + wire.each(3, map(self._symbols.expr, tensor.stride()))
            + wire.data(4, self._symbols.expr(offset))
            + wire.uint(5, device_number(tensor.device))
        )

    def _value(self) -> bytes:
        number = self._next
        self._next += 1
        return wire.uint(1, number)

    def _input(self, node: fx.Node) -> bytes:
        tensor = value_of(node)
        out = wire.text(1, node.name) + wire.data(2, self._meta(tensor, self._offset(tensor)))
        offset = expression_of(tensor.storage_offset())
        if isinstance(offset, int) and offset * tensor.element_size() % _ALLOCATOR_ALIGNMENT == 0:
            out += wire.uint(4, _ALLOCATOR_ALIGNMENT)
        if node in self._segment.donated:
            out += wire.uint(5, 1)
        self._named[node] = self._value()
        return out

    def _scalar(self, symbol: sympy.Expr) -> bytes:
        self._value()  # scalars take a number too
        return wire.text(1, str(symbol)) + wire.data(3, self._symbols.expr(symbol))

    def _node(self, node: fx.Node) -> list[bytes]:
        """The message of a node; none for one that only names what is there."""
        if node.target is operator.getitem:
            source, index = node.args
            self._named[node] = self._several[source][index]
            return []
        if not isinstance(node.target, torch._ops.OpOverload):
            raise Unsupported(f"{node.target}", node)
        try:
            return [self._call(node)]
        except Unsupported as error:
            raise Unsupported(str(error), error.node or node) from None
        except OverflowError as error:
            raise Unsupported(str(error), node) from None

    def _call(self, node: fx.Node) -> bytes:
        target = node.target
        self.has_random |= is_random(node)
        self._written.append(node)
        message = wire.text(1, str(target)) + wire.each(2, map(self._argument, node.args))
        for key, arg in node.kwargs.items():
            message += wire.data(3, wire.text(1, key) + wire.data(2, self._argument(arg)))
        value = value_of(node)
        if is_assertion(node):
            pass  # it gives nothing
        elif isinstance(value, (list, tuple)):
            results = [self._result(one, _is_used(node, i)) for i, one in enumerate(value)]
            self._several[node] = [argument for _, argument in results]
            message += wire.each(4, (meta for meta, _ in results))
        else:
            meta, self._named[node] = self._result(value, True)
            message += wire.data(4, meta)
        message += wire.text(5, node.name) + wire.text(6, line_of(node))
        original = node.meta.get("original_aten")
        if isinstance(original, torch._ops.OpOverload) and str(original) != str(target):
            message += wire.text(7, str(original))
        return message

    def _result(self, value: object, used: bool) -> tuple[bytes, bytes]:
        """A result's meta and what its name stands for; all take a number. One that nobody reads
        has no meta: some operators give other ones on other devices."""
        argument = self._value()
        if not used:
            return b"", argument
        if isinstance(value, torch.Tensor):
            return self._meta(value), argument
        if value is None:
            return b"", wire.data(8, b"")
        raise Unsupported(f"result of type {type(value).__name__}")

    def _argument(self, arg: object) -> bytes:
        if isinstance(arg, fx.Node):
            if arg in self._named:
                return self._named[arg]
            if is_symbolic(arg):
                return self._argument(value_of(arg))
            raise Unsupported(f"argument {arg.name}, which is no tensor")
        if arg is None:
            return wire.data(8, b"")
        if isinstance(arg, bool):
            return wire.uint(4, int(arg))
        if isinstance(arg, int):
            return wire.sint(2, arg)
        if isinstance(arg, float):
            return wire.double(3, arg)
        if isinstance(arg, str):
            return wire.text(5, arg)
        if isinstance(arg, torch.SymInt):
            expr = expression_of(arg)
            if isinstance(expr, int):
                return wire.sint(2, expr)
            return wire.data(6, self._symbols.expr(expr))
        if isinstance(arg, (list, tuple)):
            return wire.data(7, wire.each(1, map(self._argument, arg)))
        return _word(arg)

    def _output(self, node: fx.Node) -> bytes:
        tensor = value_of(node)
        argument = self._named[node]
        return argument + wire.each(4, map(self._symbols.expr, tensor.stride()))


def _is_used(node: fx.Node, index: int) -> bool:
    """Whether anybody reads one of an operator's results."""
    return any(user.args[1] == index and user.users for user in node.users)


def _word(arg: object) -> bytes:
    if isinstance(arg, torch.dtype):
        return wire.uint(9, dtype_number(arg))
    if isinstance(arg, torch.device):
        return wire.uint(10, device_number(arg))
    if isinstance(arg, torch.memory_format):
        return wire.uint(11, memory_format_number(arg))
    if isinstance(arg, torch.layout):
        return wire.text(12, str(arg).removeprefix("torch."))
    if isinstance(arg, (torch.SymFloat, torch.SymBool, complex)):
        raise Unsupported(f"argument {arg}")
    raise Unsupported(f"argument of type {type(arg).__name__}")


def export(
    name: str, segment: Segment, shape_env: object | None, names: str = BY_OPERATORS
) -> Exported:
    """Writes a segment, with what kernels are named by. Unsupported, with the node, for what the
    wire cannot say."""
    return _Exporter(segment, shape_env).export(name, names)

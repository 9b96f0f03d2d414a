"""kiln.config.patch in all its forms, and what is refused of it."""

import asyncio
import re
import threading
from contextlib import ExitStack, contextmanager

import pytest
import torch

import kiln
from kiln import config

USUAL = config.OPTIONS["max_fusion_size"].default


def now():
    return config.max_fusion_size


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert (now(), config.no_fusion) == (USUAL, False)


def test_a_patch_is_used_again_and_within_itself():
    patch = config.patch(max_fusion_size=2)
    for _ in range(2):
        with patch:
            assert now() == 2
        assert now() == USUAL
    with patch:
        config.max_fusion_size = 5
        with patch:
            assert now() == 2
        assert now() == 5


def test_a_patch_of_two_threads_ends_each_ones_own():
    patch, begun, ended = config.patch(max_fusion_size=2), threading.Event(), threading.Event()
    seen = []

    def work():
        with patch:
            config.max_fusion_size = 7
            begun.set()
            assert ended.wait(60)
            seen.append(now())

    other = threading.Thread(target=work)
    with patch:
        other.start()
        assert begun.wait(60)
    ended.set()
    other.join()
    assert seen == [7]


def test_a_patch_that_another_thread_ends_is_over():
    patch = config.patch(max_fusion_size=2)
    patch.__enter__()
    other = threading.Thread(target=patch.__exit__, args=(None, None, None))
    other.start()
    other.join()
    assert now() == USUAL


def test_a_patch_holds_while_a_generators_body_runs():
    @config.patch(max_fusion_size=2)
    def numbers(first):
        got = yield first, now()
        yield got, now()
        return "end"

    with ExitStack() as stack:
        made = numbers(3)
        stack.callback(made.close)
        assert now() == USUAL
        assert next(made) == (3, 2)
        assert made.send("sent") == ("sent", 2)
        with pytest.raises(StopIteration, match="end"):
            next(made)
        assert now() == USUAL
    left = numbers(4)
    next(left)
    left.close()
    assert (now(), numbers.__name__) == (USUAL, "numbers")


def test_a_patch_holds_while_a_coroutines_body_runs():
    patch = config.patch(max_fusion_size=2)

    @patch
    async def number(first):
        before = now()
        await asyncio.sleep(0)
        return first, before, now()

    async def both():
        return await asyncio.gather(number(1), number(2))

    assert asyncio.run(both()) == [(1, 2, 2), (2, 2, 2)]
    assert asyncio.iscoroutinefunction(number)


def test_a_patch_holds_while_an_object_is_called_whose_call_is_a_coroutine_or_a_generator():
    class Numbers:
        def __call__(self):
            yield now()

    class Number:
        async def __call__(self):
            await asyncio.sleep(0)
            return now()

    patch = config.patch(max_fusion_size=2)
    assert list(patch(Numbers())()) == [2]
    assert asyncio.run(patch(Number())()) == 2


def test_a_patch_of_two_tasks_ends_each_ones_own():
    patch = config.patch(max_fusion_size=2)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def first():
        with patch:
            await begun.wait()
        ended.set()

    async def second():
        with patch:
            config.max_fusion_size = 9
            begun.set()
            await ended.wait()
            return now()

    async def both():
        return (await asyncio.gather(first(), second()))[1]

    assert asyncio.run(both()) == 9
    assert now() == USUAL


def test_a_block_that_has_not_begun_does_not_end():
    with pytest.raises(RuntimeError, match="kiln.config.patch: a block ends that has not begun"):
        config.patch(max_fusion_size=2).__exit__(None, None, None)


async def _items():
    yield 1


@contextmanager
def _block():
    yield


class _Class:
    pass


@pytest.mark.parametrize(
    "what, words",
    [
        (_Class, "found the class _Class, expected a function; decorate its methods"),
        (_items, "found the asynchronous generator _items, expected a function; write `with kiln"),
        (_block, "found the context manager _block, expected a function; decorate the generator"),
        (staticmethod(now), "found a staticmethod, expected a function; write @staticmethod above"),
        (classmethod(now), "found a classmethod, expected a function; write @classmethod above"),
        (3, "found 3, expected a function"),
    ],
    ids=["class", "asynchronous generator", "context manager", "staticmethod", "classmethod", "number"],
)
def test_what_a_patch_cannot_decorate_is_refused(what, words):
    with pytest.raises(TypeError, match=f"kiln.config.patch: {words}"):
        config.patch(max_fusion_size=2)(what)


@pytest.mark.parametrize(
    ("name", "right", "kept", "wrong", "due"),
    [
        ("cudagraph_capture_sizes", [1, [2, 3]], (1, (2, 3)), "64", "integers, or tuples of them"),
        ("cudagraph_capture_sizes", [(2, 3)], ((2, 3),), (2, "3"), "integers, or tuples of them"),
        ("custom_should_partition_ops", ["a::b"], ("a::b",), "a.b", "ns::op or ns::op.overload"),
        ("cudagraph_unsafe_unbacked_ops", ("a::b.c",), ("a::b.c",), 3, "ns::op or ns::op.overload"),
    ],
)
def test_each_item_of_a_list_is_looked_at(name, right, kept, wrong, due):
    with config.patch({name: right}):
        assert getattr(config, name) == kept
    words = re.escape(f"kiln.config.{name}: found {wrong!r} in it, expected {due}")
    with pytest.raises(TypeError, match=words):
        config.patch({name: [*right, wrong]})


def test_a_patch_that_is_wrong_is_told_of_where_it_is_made():
    with pytest.raises(AttributeError, match="kiln.config.max_fusion_sise: .* did you mean max_fus"):
        config.patch(max_fusion_sise=2)
    with pytest.raises(ValueError, match="kiln.config.max_fusion_size: found 0, expected 1 to 4096"):
        config.patch(max_fusion_size=0)
    with pytest.raises(TypeError, match="kiln.config.max_fusion_size: found None, expected int"):
        config.patch("max_fusion_size", None)
    for wrong in ("max_fusion_size", 3, None, {3: 4}, ["max_fusion_size"]):
        with pytest.raises(TypeError, match=r"kiln.config.patch: found .*, expected a dict of names"):
            config.patch(wrong)
    for wrong in (3, ["max_fusion_size"], {"max_fusion_size": 1}):
        with pytest.raises(TypeError, match=r"kiln.config.patch: found .*, expected a dict of names"):
            config.patch(wrong, 2)


@pytest.mark.parametrize(
    "patch",
    [
        config.patch({"max_fusion_size": 2, "no_fusion": True}),
        config.patch({"max_fusion_size": 2}, no_fusion=True),
        config.patch("max_fusion_size", 2, no_fusion=True),
    ],
    ids=["dict", "dict and keyword", "name and value"],
)
def test_a_patch_takes_the_forms_of_pytorchs_own(patch):
    with patch:
        assert (now(), config.no_fusion) == (2, True)
    assert "max_fusion_size" in repr(patch)


def test_an_option_is_not_deleted():
    for name, default in (("max_fusion_size", "64"), ("max_autotune", "False")):
        words = f"kiln.config.{name}: an option cannot be deleted; set it to its default, {default}"
        with pytest.raises(AttributeError, match=words):
            delattr(config, name)
    with pytest.raises(AttributeError, match="kiln.config.nonsense: there is no such option"):
        del config.nonsense


def test_an_unknown_option_is_told_with_those_that_there_are():
    with pytest.raises(AttributeError) as unknown:
        config.snapshot({"foo": 1})
    offered = str(unknown.value).partition("expected one of ")[2].split(", ")
    assert offered == sorted(config.OPTIONS)


@pytest.mark.parametrize("options", ["no_fusion", {5: 1}, [("no_fusion", True)]])
def test_options_that_are_no_dict_of_names_are_told_so(options):
    compiled = torch.compile(torch.sin, backend=kiln.backend.kiln, options=options)
    with pytest.raises(Exception, match="kiln: options: found .*, expected a dict of names"):
        compiled(torch.randn(3))


def test_a_function_under_a_patch_is_compiled_with_it():
    @config.patch(no_fusion=True)
    def fn(x):
        return torch.relu(x).sum(1) + torch.nn.functional.gelu(x).sum(1)

    x = torch.randn(8, 8)
    kiln.metrics.reset()
    fused = torch.compile(fn.__wrapped__, backend="kiln")(x)
    before = kiln.metrics.launch_count
    torch._dynamo.reset()
    kiln.metrics.reset()
    torch.testing.assert_close(torch.compile(fn, backend="kiln")(x), fused)
    assert kiln.metrics.launch_count > before > 0

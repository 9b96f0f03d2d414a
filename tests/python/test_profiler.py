"""Kernels as torch.profiler and launch hooks see them."""

import json
import os
import threading

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, schedule

import kiln
from kiln.launches import source_hash
from processes import run_kiln

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def activities(device):
    gpu = [ProfilerActivity.CUDA] if device == "cuda" else []
    return [ProfilerActivity.CPU, *gpu]


def warm(function, *args, **options):
    """Compiled and called twice, so that no event of the compile is seen."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="kiln", **options)
    for _ in range(2):
        compiled(*args)
    return compiled


def profiled(call, device="cpu", **options):
    with profile(activities=activities(device), record_shapes=True, **options) as seen:
        call()
    return seen


def launches(seen):
    return [event for event in seen.events() if "kernel_backend" in (event.kwinputs or {})]


def calls_in(folder):
    """The traces of calls that the option ``trace`` has written."""
    return sorted(file for file in folder.iterdir() if not file.name.endswith(".compile.json"))


def add_sin_cos(x, y):
    return (x + y).sin().cos()


def two(device, *sizes):
    return torch.randn(sizes, device=device), torch.randn(sizes, device=device)


def test_the_trace_that_is_exported_has_the_launch(device, tmp_path):
    x, y = two(device, 4, 4)
    compiled = warm(add_sin_cos, x, y)
    profiled(lambda: compiled(x, y), device).export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    event = next(e for e in events if e.get("name") == "kiln_poi_fused_add_cos_sin_0")
    assert event["cat"] == "cpu_op" and event["args"]["kernel_backend"] == "kiln"
    if device == "cuda":
        names = [e.get("name", "") for e in events]
        assert any(name in ("cuLaunchKernel", "cuLaunchKernelEx") for name in names)
        kernels = [e["name"] for e in events if e.get("cat") == "kernel"]
        assert [name.startswith("kiln_poi_fused_add_cos_sin_") for name in kernels] == [True]


def test_a_pointwise_kernel_is_named_by_its_operators_with_its_shapes(device):
    x, y = two(device, 4, 4)
    compiled = warm(add_sin_cos, x, y)
    (event,) = launches(profiled(lambda: compiled(x, y), device))
    assert event.name == "kiln_poi_fused_add_cos_sin_0"
    assert event.input_shapes[:4] == [[4, 4], [4, 4], [4, 4], []]


@pytest.mark.parametrize(
    ("multiply", "name"),
    [(torch.mm, "kiln_tem_fused_mm_0"), (lambda x, y: torch.mm(x, y) * 2, "kiln_tem_fused_mm_mul_0")],
    ids=["alone", "with_an_epilogue"],
)
def test_a_template_is_named_so_with_its_shapes(device, multiply, name):
    x, y = torch.randn(1, 64, device=device), torch.randn(64, 4, device=device)
    compiled = warm(multiply, x, y)
    (event,) = launches(profiled(lambda: compiled(x, y), device))
    assert event.name == name
    assert event.input_shapes[:3] == [[1, 64], [64, 4], [1, 4]]


def test_a_product_that_a_library_computes_is_no_launch_and_takes_no_number(device):
    x, y = two(device, 4, 4)
    compiled = warm(lambda x, y: torch.mm(x, y).sin(), x, y)
    (event,) = launches(profiled(lambda: compiled(x, y), device))
    assert event.name == "kiln_poi_fused_sin_0"


def test_a_launch_for_lists_of_tensors_has_the_shapes_of_all(device):
    def add(a, b):
        return torch._foreach_add(a, b)

    a, b = ([torch.randn(4, 4, device=device) for _ in range(3)] for _ in range(2))
    compiled = warm(add, a, b)
    (event,) = launches(profiled(lambda: compiled(a, b), device))
    assert event.name == "kiln_for_fused_0"
    assert event.input_shapes == [[4, 4]] * 9


def test_hooks_are_called_around_each_launch(device):
    x, y = two(device, 4, 4)
    compiled = warm(add_sin_cos, x, y)
    told = []
    hooks = kiln.register_launch_hooks(
        lambda launch: told.append(("enter", launch.name, launch["grid"])),
        lambda launch: told.append(("exit", launch.name, launch["grid"])),
    )
    with hooks:
        expected = compiled(x, y)
    torch.testing.assert_close(expected, add_sin_cos(x, y))
    name, grid = "kiln_poi_fused_add_cos_sin_0", told[0][2]
    assert told == [("enter", name, grid), ("exit", name, grid)]
    compiled(x, y)
    assert len(told) == 2


def test_what_is_known_of_a_launch_is_worked_out_when_it_is_asked_for(device):
    x, y = two(device, 64, 4)
    compiled = warm(add_sin_cos, x, y)
    seen = []
    with kiln.register_launch_hooks(seen.append):
        compiled(x, y)
    with pytest.raises(ValueError):  # too late
        seen[0]["grid"]
    with kiln.register_launch_hooks(lambda launch: seen.append(dict(launch))):
        compiled(x, y)
    known = seen[1]
    assert set(known["operators"]) == {"add", "cos", "sin"}
    assert known["arguments"][:3] == ((torch.float32, (64, 4)),) * 3
    assert (known["bytes_read"], known["bytes_written"]) == (2048, 1024)
    assert known["extents"] == (256,)


def first_and_second(x):
    y = torch.softmax(x, -1)
    return y.sum(0) * 2


def test_a_launch_names_the_nodes_and_lines_that_it_comes_from(device):
    x = torch.randn(16, 8, device=device)
    compiled = warm(first_and_second, x)
    told = []
    with kiln.register_launch_hooks(lambda launch: told.append(launch["nodes"])):
        compiled(x)
    line = first_and_second.__code__.co_firstlineno
    lines = {
        "aten._softmax.default": f"{__file__}:{line + 1} in first_and_second",
        "aten.sum.dim_IntList": f"{__file__}:{line + 2} in first_and_second",
        "aten.mul.Tensor": f"{__file__}:{line + 2} in first_and_second",
    }
    nodes = {node for launch in told for node in launch}
    assert {operator: where for _, operator, where in nodes} == lines
    assert all(name for name, _, _ in nodes)
    events = launches(profiled(lambda: compiled(x), device))
    told_lines = {one for e in events for one in e.kwinputs["source_lines"].split(", ")}
    assert told_lines == set(lines.values())
    told_nodes = {one for e in events for one in e.kwinputs["kernel_nodes"].split(",")}
    assert told_nodes == {name for name, _, _ in nodes}


def test_lines_of_a_module_are_the_users_not_pytorchs(device):
    class Scaled(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.gelu(x)

    x = torch.randn(8, device=device, requires_grad=True)
    compiled = warm(torch.nn.Sequential(Scaled(), torch.nn.ReLU()), x)
    told = []

    def enter(launch):
        told.extend(line for _, _, line in launch["nodes"])

    with kiln.register_launch_hooks(enter):
        compiled(x).sum().backward()
    place = f"{__file__}:{Scaled.forward.__code__.co_firstlineno + 1} in forward"
    assert place in told
    # ReLU has no line of the user's: PyTorch's own stands for it.
    assert {line for line in told if __file__ in line} == {place}


def test_a_trace_names_the_nodes_and_lines_of_its_steps(device, tmp_path):
    x = torch.randn(16, 8, device=device)
    with kiln.config.patch(trace=str(tmp_path)):
        warm(first_and_second, x)
    events = json.loads(calls_in(tmp_path)[0].read_text())["traceEvents"]
    words = [node for e in events for node in e.get("args", {}).get("nodes", [])]
    line = first_and_second.__code__.co_firstlineno + 1
    (softmax,) = {word for word in words if "aten._softmax.default" in word}
    assert softmax.endswith(f": aten._softmax.default, at {__file__}:{line} in first_and_second")


def test_compilectl_shows_the_compile_and_the_nodes_of_each_kernel(tmp_path):
    tag = os.urandom(8).hex()  # a graph that nobody has compiled
    x, y = two("cpu", 4, 4)
    warm(add_sin_cos, x, y, options={"cache_tag": tag, "trace": str(tmp_path)})
    (file,) = tmp_path.glob("*.compile.json")
    artifact, load = json.loads(file.read_text())["traceEvents"]
    assert (artifact["name"], load["name"]) == ("artifact", "load")
    assert artifact["args"]["served_from"] == "compile" and artifact["dur"] > 0
    assert load["ts"] == artifact["dur"]
    shown = run_kiln("cache", "show", artifact["args"]["key"], "--trace")
    trace = json.loads(shown.stdout)
    assert trace["otherData"]["key"] == artifact["args"]["key"]
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    job = {e["name"]: e for e in events if e["pid"] == 1 and e["cat"] in ("job", "wait")}
    assert {"queue", "plan", "build", "assemble and sign"} <= job.keys()
    passes = [e for e in events if e["cat"] == "pass"]
    assert {"fuse_loops", "write_kernels"} <= {e["name"] for e in passes}
    plan = job["plan"]
    for one in passes:
        assert plan["ts"] <= one["ts"] and one["ts"] + one["dur"] <= plan["ts"] + plan["dur"]
    (kernel,) = [e for e in events if e["pid"] == 2 and e["cat"] == "kernel"]
    assert kernel["name"] == "kiln_poi_fused_add_cos_sin_0"
    operators = [node.split("(")[0].split(": ")[1] for node in kernel["args"]["nodes"]]
    assert operators == ["aten.add.Tensor", "aten.sin.default", "aten.cos.default"]


def test_what_a_hook_raises_ends_the_call_and_the_next_one_works(device):
    x, y = two(device, 4, 4)
    compiled = warm(add_sin_cos, x, y)

    def enter(launch):
        raise LookupError("of the hook")

    with kiln.register_launch_hooks(enter), pytest.raises(LookupError, match="of the hook"):
        compiled(x, y)
    torch.testing.assert_close(compiled(x, y), add_sin_cos(x, y))


def test_hooks_that_were_told_of_a_launch_are_told_of_its_end_whatever_others_raise(device):
    x, y = two(device, 4, 4)
    compiled = warm(add_sin_cos, x, y)
    told = []

    def raises(launch):
        raise LookupError("of the hook")

    register = kiln.register_launch_hooks
    with register(lambda launch: told.append("enter"), lambda launch: told.append("exit")):
        with register(raises), pytest.raises(LookupError, match="of the hook"):
            compiled(x, y)
        assert told == ["enter", "exit"]
    told.clear()
    with register(exit=raises), register(exit=lambda launch: told.append("exit")):
        with pytest.raises(LookupError, match="of the hook"):
            compiled(x, y)
    assert told == ["exit"]


def test_each_step_of_a_schedule_has_its_events_with_all_attributes(device):
    def step(x, weight, bias):
        return (torch.nn.functional.linear(x, weight) + bias).cos()

    size = 256
    x, weight = two(device, size, size)
    bias = torch.randn(size, device=device)
    compiled = warm(step, x, weight, bias)
    plan = schedule(skip_first=3, wait=1, warmup=1, active=2, repeat=1)
    with profile(activities=activities(device), record_shapes=True, schedule=plan) as seen:
        for _ in range(10):
            compiled(x, weight, bias)
            seen.step()
    events = launches(seen)
    assert len(events) == 2
    for event in events:
        known = event.kwinputs
        assert isinstance(known["stream"], int)
        assert known["kernel_kwargs"].startswith("XBLOCK=")
        with open(known["kernel_file"]) as file:
            assert source_hash(file.read()) == known["kernel_hash"]
        assert os.path.isabs(known["kernel_file"])
        assert len(known["kernel_hash"]) == 52
        assert known["num_warps"] >= 1 and known["num_stages"] >= 1
        assert known["kernel_name"] == event.name
        assert known["kernel_num_gb"] > 0


def test_a_forward_that_needs_gradients_is_one_kernel(device):
    x, y = two(device, 8, 8)
    x.requires_grad_()
    compiled = warm(add_sin_cos, x, y)
    assert len(launches(profiled(lambda: compiled(x, y), device))) == 1


def test_the_backend_is_called_what_an_option_says(device):
    x, y = two(device, 4, 4)
    compiled = warm(add_sin_cos, x, y)
    with kiln.config.patch(kernel_backend="triton"):
        (event,) = launches(profiled(lambda: compiled(x, y), device))
    assert event.kwinputs["kernel_backend"] == "triton"


def test_a_model_has_its_own_word_for_the_backend(device):
    x, y = two(device, 4, 4)
    own = warm(add_sin_cos, x, y, options={"kernel_backend": "triton"})
    other = torch.compile(lambda x, y: (x * y).sin(), backend="kiln")
    for _ in range(2):
        other(x, y)
    seen = profiled(lambda: (own(x, y), other(x, y)), device)
    found = {event.name: event.kwinputs["kernel_backend"] for event in launches(seen)}
    assert found == {
        "kiln_poi_fused_add_cos_sin_0": "triton",
        "kiln_poi_fused_mul_sin_0": "kiln",
    }


def test_without_a_profiler_and_hooks_nothing_is_told(device, monkeypatch):
    from kiln import _native, launches as module

    x, y = two(device, 4, 4)
    compiled = warm(add_sin_cos, x, y)
    calls = []
    watch = (lambda *given: calls.append(given), calls.append, None, torch.autograd.profiler)
    _native.launch_watchers(*watch)
    try:
        compiled(x, y)
        assert calls == []
        profiled(lambda: compiled(x, y), device)
        assert len(calls) == 2
    finally:
        _native.launch_watchers(
            module._enter, module._exit, module._enter_replay, torch.autograd.profiler
        )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a CPU kernel is called for nothing too")
def test_a_kernel_over_nothing_has_no_event():
    device = "cuda"
    x, y = two(device, 0, 4)
    compiled = warm(add_sin_cos, x, y)
    assert launches(profiled(lambda: compiled(x, y), device)) == []


def names_and_symbols(compiled, *args):
    """Of each launch."""
    told = []
    with kiln.register_launch_hooks(lambda launch: told.append((launch.name, launch["symbol"]))):
        compiled(*args)
    return told


def test_one_kernel_of_two_places_has_one_name_and_two_events(device):
    def twice(x, y):
        return torch.cumsum(x.sin(), 0), torch.cumsum(y.sin(), 0)

    x, y = two(device, 16, 3)
    with kiln.config.patch(no_fusion=True):
        compiled = warm(twice, x, y)
    names = [event.name for event in launches(profiled(lambda: compiled(x, y), device))]
    told = names_and_symbols(compiled, x, y)
    assert names == [name for name, _ in told]
    assert len(told) == 4 and len(set(told)) == 2
    assert len(set(names)) == 2 and len({symbol for _, symbol in told}) == 2


def test_names_are_unique_in_a_graph_over_what_cuts_it(device):
    """The numbers go on, and a kernel of two segments is one."""

    def function(x):
        y = (x * 2).sin()
        z = torch.linalg.inv(y[:3, :3].contiguous() + 3 * torch.eye(3, device=x.device))
        w = torch.linalg.inv((z * 2).sin() + 3 * torch.eye(3, device=x.device))
        return y, w, torch.linalg.inv((w * 2).sin() + 3 * torch.eye(3, device=x.device))

    x = torch.randn(8, 8, device=device)
    compiled = warm(function, x)
    told = names_and_symbols(compiled, x)
    names, symbols = dict(told), {symbol: name for name, symbol in told}
    assert len(names) == len(symbols) > 1
    assert all(names[name] == symbol for name, symbol in told)
    assert len(told) > len(set(told))  # the last two are one kernel
    numbers = [int(name.rpartition("_")[2]) for name in names]
    assert numbers == sorted(numbers)
    events = launches(profiled(lambda: compiled(x), device))
    assert [event.name for event in events] == [name for name, _ in told]


def test_the_same_operators_in_other_shapes_are_other_kernels(device):
    def function(x, y):
        return (x * 2).sin(), (y * 2).sin()

    x, y = torch.randn(8, device=device), torch.randn(5, 7, device=device).t()
    with kiln.config.patch(no_fusion=True):
        compiled = warm(function, x, y)
    told = names_and_symbols(compiled, x, y)
    assert len({name for name, _ in told}) == len({symbol for _, symbol in told}) == len(told)


def test_no_other_operator_is_recorded(device):
    x, y = two(device, 3, 7)
    compiled = warm(add_sin_cos, x, y)
    names = [event.name for event in profiled(lambda: compiled(x, y), device).events()]
    allowed = {"aten::empty_strided"} if device == "cuda" else set()
    assert {name for name in names if name.startswith("aten::")} <= allowed


def test_shapes_are_not_recorded_unless_asked_for():
    x, y = two("cpu", 4, 4)
    compiled = warm(add_sin_cos, x, y)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        compiled(x, y)
    (event,) = [event for event in seen.events() if event.name.startswith("kiln_")]
    assert event.input_shapes == []


def test_another_thread_has_its_own_events():
    x, y = two("cpu", 4, 4)
    compiled = warm(add_sin_cos, x, y)
    threads = []

    def hook(launch):
        threads.append(threading.get_ident())

    def work():
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            compiled(x, y)
        found.extend(event for event in seen.events() if event.name.startswith("kiln_"))

    found = []
    with kiln.register_launch_hooks(hook):
        thread = threading.Thread(target=work)
        thread.start()
        ident = thread.ident
        thread.join()
    assert threads == [ident] and len(found) == 1


def test_each_call_writes_a_trace_where_the_option_says(device, tmp_path):
    x, y = two(device, 4, 4)
    with kiln.config.patch(trace=str(tmp_path / "traces")):
        compiled = warm(add_sin_cos, x, y)
    files = calls_in(tmp_path / "traces")
    assert len(files) == 2
    events = json.loads(files[0].read_text())["traceEvents"]
    assert {event["name"] for event in events} == {"kiln_poi_fused_add_cos_sin_0", "run"}
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)
    with kiln.register_launch_hooks(lambda launch: None):
        torch.testing.assert_close(compiled(x, y), add_sin_cos(x, y))


def test_bandwidth_is_a_table_of_the_kernels_of_a_call(device):
    x, y = two(device, 512, 512)
    torch._dynamo.reset()
    found = kiln.bandwidth(torch.compile(add_sin_cos, backend="kiln"), x, y)
    (kernel,) = found.kernels
    assert kernel.name == "kiln_poi_fused_add_cos_sin_0" and kernel.launches == 1
    assert kernel.gb == pytest.approx(3 * 512 * 512 * 4 / 1e9)
    assert kernel.ms > 0 and found.copy_gb_per_s > 0
    assert kernel.share == pytest.approx(kernel.gb_per_s / found.copy_gb_per_s)
    assert [len(line.split()) for line in str(found).splitlines()] == [7, 6, 4]


def test_bandwidth_tells_kernels_of_one_name_apart(device):
    small, large = two(device, 512, 512)

    def function(x):
        return (x * 2).sin()

    def both(x, y):
        return compiled(x[:8, :8]), compiled(y)

    torch._dynamo.reset()
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        compiled = torch.compile(function, backend="kiln")
        found = kiln.bandwidth(both, small, large)
    first, second = found.kernels
    assert first.name == second.name == "kiln_poi_fused_mul_sin_0"
    assert (first.launches, second.launches) == (1, 1)
    assert first.gb == pytest.approx(2 * 8 * 8 * 4 / 1e9)
    assert second.gb == pytest.approx(2 * 512 * 512 * 4 / 1e9)
    assert first.ms >= 0 and second.ms >= 0  # an empty kernel takes as long as a short one


def test_names_are_those_of_the_operators_of_the_program(device):
    def norm(x):
        return torch.softmax(torch.nn.functional.layer_norm(x, (8,)), -1)

    x = torch.randn(16, 8, device=device)
    compiled = warm(norm, x)
    names = [event.name for event in launches(profiled(lambda: compiled(x), device))]
    operators = {"_softmax", "native_layer_norm"}
    assert {word for word in operators if any(word in name for name in names)} == operators
    assert not any(word in name for name in names for word in ("amax", "rsqrt", "var_mean"))

"""Replays under torch.profiler, on a GPU: sections 5 and 10 of the profiler's fact sheet."""

import json
import textwrap

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import kiln
from processes import answer_of, start
from trees import graphs, recordings, skips

ACTIVITIES = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


def test_cupti_lazy_reinit():
    text = """
        import json, os, torch, kiln
        from torch.profiler import ProfilerActivity, profile
        called = torch.compile(lambda x: (x + 1).sin(), backend="kiln", mode="reduce-overhead")
        x = torch.rand(8, device="cuda")
        counts = []
        for _ in range(3):
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
                for _ in range(3):
                    called(x)
                torch.cuda.synchronize()
            counts.append(sum("kiln_" in e.name for e in seen.events() if e.device_type.name == "CUDA"))
        names = ("DISABLE_CUPTI_LAZY_REINIT", "TEARDOWN_CUPTI")
        print(json.dumps({"told": [os.environ.get(n) for n in names], "counts": counts}))
    """
    answer, _ = answer_of(start(textwrap.dedent(text)))
    older = tuple(map(int, torch.version.cuda.split(".")[:2])) < (12, 6)
    assert answer["told"] == (["1", "0"] if older else [None, None])
    # Each profile sees the kernels, of a replay too.
    assert answer["counts"][1:] == [3, 3]


def replayed(function, *inputs):
    called = graphs(function)
    for _ in range(3):
        called(*inputs)
    return called


def test_a_profile_has_the_launch_of_a_replay_and_the_kernels_in_it(tmp_path):
    x = torch.rand(64, 64, device="cuda")
    called = replayed(lambda x: torch.softmax(x @ x, -1).sum(0), x)
    with profile(activities=ACTIVITIES, record_shapes=True) as seen:
        called(x)
        torch.cuda.synchronize()
    (event,) = [e for e in seen.events() if e.name == "kiln_graph_replay"]
    assert not any("kernel_backend" in (e.kwinputs or {}) for e in seen.events())
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(e.get("name") == "cudaGraphLaunch" for e in events)
    kernels = [e["name"] for e in events if e.get("cat") == "kernel"]
    told = [name.rpartition("_")[0] for name in event.kwinputs["kernels"].split(",")]
    own = [name.rpartition("_")[0] for name in kernels if name.startswith("kiln_")]
    assert own and sorted(own) == sorted(told)
    assert (recordings(), skips()) == (1, 0)


@pytest.mark.parametrize("is_graph", [False, True])
def test_each_launch_has_the_stream_that_it_is_on(is_graph, tmp_path):
    x = torch.rand(64, 64, device="cuda")
    called = graphs(lambda x: (x + 1).sin(), cudagraphs=is_graph)
    streams = [torch.cuda.Stream(), torch.cuda.current_stream(), torch.cuda.Stream()]

    def call():
        for stream in streams:
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                torch.testing.assert_close(called(x), (x + 1).sin())
        torch.cuda.synchronize()

    call()
    with profile(activities=ACTIVITIES, record_shapes=True) as seen:
        call()
    name = "kiln_graph_replay" if is_graph else "kiln_poi_fused_add_sin_0"
    told = [event.kwinputs["stream"] for event in seen.events() if event.name == name]
    assert told == [stream.cuda_stream for stream in streams]
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    rows = [e for e in events if e.get("cat") == "kernel" and e["name"].startswith("kiln_poi_")]
    assert len(rows) == 3
    if not is_graph:
        assert len({row["tid"] for row in rows}) == 3
        assert all(row["tid"] == row["args"]["stream"] for row in rows)


def test_hooks_see_one_launch_of_a_replay():
    x = torch.rand(64, 64, device="cuda")
    called = replayed(lambda x: torch.softmax(x, -1).sum(0), x)
    told = []
    with kiln.register_launch_hooks(told.append):
        called(x)
    (replay,) = told
    assert replay.name == "kiln_graph_replay"
    names = [kernel["name"] for kernel in replay["kernels"]]
    assert names and all(name.startswith("kiln_") for name in names)


def traced_calls(function, inputs, folder, calls):
    """Category, name and kernels of each event of each call, in its trace."""
    called = graphs(function, trace=str(folder))
    for _ in range(calls):
        torch.testing.assert_close(called(*inputs), function(*inputs))
    found = []
    for file in sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime_ns):
        if not file.name.endswith(".compile.json"):
            events = json.loads(file.read_text())["traceEvents"]
            found.append([(e["cat"], e["name"], e.get("args", {}).get("kernels")) for e in events])
    return found


def test_a_trace_has_of_a_replay_one_event_with_its_kernels(tmp_path):
    x = torch.rand(64, 64, device="cuda")
    calls = traced_calls(lambda x: torch.softmax(x @ x, -1).sum(0), [x], tmp_path, 3)
    warm_up, recorded, replayed = calls
    kernels = [name for kind, name, _ in warm_up if kind == "kernel"]
    assert kernels and any(kind.startswith("extern,") for kind, _, _ in warm_up)
    assert recorded == replayed == [("graph", "kiln_graph_replay", kernels)]
    assert (recordings(), skips()) == (1, 0)


def test_a_trace_of_a_cut_graph_has_each_parts_replay(tmp_path):
    def function(x, y):
        x1, y1 = x + 1, y + 1
        return x @ y, x1 + y1 + (y1.cpu() + 1).cuda()

    x, y = (torch.rand(2, 2, device="cuda") for _ in range(2))
    *_, replayed = traced_calls(function, [x, y], tmp_path, 3)
    names = [kernels for kind, _, kernels in replayed if kind == "graph"]
    assert len(names) == recordings() == 2 and all(names)


def test_bandwidth_of_a_replay_is_that_of_its_kernels():
    x = torch.rand(1 << 20, device="cuda")
    called = replayed(lambda x: (x + 1).sin(), x)
    found = kiln.bandwidth(called, x)
    (kernel,) = found.kernels
    assert kernel.gb == 2 * 4 * (1 << 20) / 1e9
    assert kernel.ms > 0 and 0 < kernel.share < 2

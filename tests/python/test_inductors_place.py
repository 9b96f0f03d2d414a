"""Programs that know only Inductor: kiln.replace_inductor and python -m kiln run."""

import os
import subprocess
import sys
import textwrap
import warnings

import pytest
import torch
from torch._inductor import config as inductors_config

import kiln
from kiln import inductors_place


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    kiln.counters.clear()
    inductors_place._told.clear()
    yield
    for standing in list(inductors_place._standing):
        standing.remove()


def double(x):
    return (x + x).relu()


def is_kilns(compiled):
    x = torch.randn(4, 4)
    torch.testing.assert_close(compiled(x), double(x))
    served = kiln.counters["cache_hit"] + kiln.counters["cache_miss"]
    return served > 0


@pytest.mark.parametrize(
    "compile_",
    [
        lambda f: torch.compile(f),
        lambda f: torch.compile(f, backend="inductor"),
        lambda f: torch.compile(backend="inductor", fullgraph=True)(f),
        lambda f: torch._dynamo.optimize("inductor")(f),
    ],
    ids=["nothing", "inductor", "decorator", "optimize"],
)
def test_whoever_names_inductor_or_nothing_gets_kiln(compile_):
    with kiln.replace_inductor():
        assert is_kilns(compile_(double))


def test_a_module_that_compiles_itself_gets_kiln():
    model = Model()
    with kiln.replace_inductor():
        model.compile()
        model(torch.randn(2, 8), torch.randn(2, 1))
    assert kiln.counters["cache_hit"] + kiln.counters["cache_miss"] > 0


def test_others_keep_their_backends():
    seen = []

    def own(module, example_inputs):
        seen.append(module)
        return module.forward

    with kiln.replace_inductor():
        torch.compile(double, backend=own)(torch.ones(2))
        torch.compile(double, backend="eager")(torch.ones(3))
    assert len(seen) == 1
    assert kiln.counters["cache_hit"] + kiln.counters["cache_miss"] == 0


def test_the_end_gives_inductor_back_and_a_second_call_changes_nothing():
    wrapper = torch._TorchCompileInductorWrapper
    by_name = torch._dynamo.backends.registry.lookup_backend("inductor")
    first = kiln.replace_inductor()
    assert kiln.replace_inductor() is first
    assert torch._TorchCompileInductorWrapper is not wrapper
    first.remove()
    first.remove()
    assert torch._TorchCompileInductorWrapper is wrapper
    assert torch._dynamo.backends.registry.lookup_backend("inductor") is by_name


def test_options_that_kiln_has_count_and_others_are_told_of_once():
    options = {"max_fusion_size": 1, "epilogue_fusion": True, "shape_padding": True}
    with kiln.replace_inductor():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for size in (4, 5):
                torch._dynamo.reset()
                compiled = torch.compile(double, options=dict(options))
                compiled(torch.randn(size))
        words = [str(one.message) for one in told if "left out" in str(one.message)]
        assert len(words) == 1 and "epilogue_fusion=True" in words[0]
        assert kiln.config.max_fusion_size != 1
        with pytest.raises(Exception, match="max_fusion_size"):
            torch.compile(double, options={"max_fusion_size": 0})(torch.randn(6))


def warnings_of(call):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in told if "left out" in str(one.message)]


def options_of(monkeypatch, **words):
    """What Kiln is given of a function that is compiled in Inductor's place."""
    seen = []
    backend = inductors_place.kiln

    def note(module, example_inputs, *, mode, options):
        seen.append(options)
        return backend(module, example_inputs, mode=mode, options=options)

    with monkeypatch.context() as patch, kiln.replace_inductor():
        patch.setattr(inductors_place, "kiln", note)
        assert is_kilns(torch.compile(double, **words))
    return seen[-1]


def test_what_is_set_in_inductors_config_counts_and_what_kiln_lacks_is_told_of(monkeypatch):
    changed = {"triton.cudagraphs": True, "max_fusion_size": 7, "epilogue_fusion": False}
    with inductors_config.patch(changed):
        given = {}
        words = warnings_of(lambda: given.update(options_of(monkeypatch)))
        assert given["cudagraphs"] is True and given["max_fusion_size"] == 7
        assert len(words) == 1 and "option epilogue_fusion=False" in words[0]
        torch._dynamo.reset()
        assert options_of(monkeypatch, options={"max_fusion_size": 5})["max_fusion_size"] == 5


def test_as_it_is_imported_inductors_config_gives_nothing(monkeypatch):
    given = {}
    assert warnings_of(lambda: given.update(options_of(monkeypatch))) == []
    assert given == {}


@pytest.mark.parametrize(
    ("name", "none"), [("cudagraph_capture_sizes", ()), ("cudagraph_dynamic_shape_warn_limit", 0)]
)
def test_inductors_none_is_kilns(monkeypatch, name, none):
    assert options_of(monkeypatch, options={f"triton.{name}": None})[name] == none


def test_a_mode_that_kiln_lacks_is_told_of_once_and_one_that_none_has_is_refused(monkeypatch):
    monkeypatch.setattr(inductors_place, "list_mode_options", lambda: ["default", "sparing"])
    with kiln.replace_inductor():
        made = []
        words = warnings_of(lambda: made.extend(torch.compile(double, mode="sparing") for _ in "ab"))
        assert len(words) == 1 and "mode='sparing'" in words[0]
        assert is_kilns(made[0])
        with pytest.raises(ValueError, match="mode 'spairing': .* expected one of default, sparing"):
            torch.compile(double, mode="spairing")


def test_the_mode_that_measures_kernels_and_inductors_option_are_taken_over():
    with kiln.replace_inductor():
        assert is_kilns(torch.compile(double, mode="max-autotune"))
        assert is_kilns(torch.compile(double, options={"max_autotune": True}))


PROGRAM = """
    import sys, torch, kiln
    assert __name__ == "__main__"
    compiled = torch.compile(lambda x: x + 1)
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    served = kiln.counters["cache_hit"] + kiln.counters["cache_miss"]
    own = sys.modules["__main__"].__dict__ is globals()
    sys.stdout.write(f"{served} {sys.argv[1:]} {own}\\n")  # in one piece: ranks write at once
"""


def run(folder, *words):
    return subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    return tmp_path


@pytest.mark.parametrize("words", [["program.py"], ["-m", "program"]], ids=["script", "module"])
def test_a_program_runs_with_its_words(folder, words):
    done = run(folder, "-m", "kiln", "run", *words, "--lr", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 ['--lr', '1'] True\n"


def test_a_program_runs_under_torchrun(folder):
    done = run(
        *(folder, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *("-m", "kiln", "run", "program.py"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("1 [] True") == 2


def test_a_programs_end_is_its_own(folder):
    (folder / "fails.py").write_text("import sys\nsys.exit(7)\n")
    assert run(folder, "-m", "kiln", "run", "fails.py").returncode == 7
    (folder / "raises.py").write_text("raise OSError('of the program')\n")
    done = run(folder, "-m", "kiln", "run", "raises.py")
    assert done.returncode == 1 and "Traceback" in done.stderr


def test_what_cannot_be_run_is_said_in_a_line(folder):
    for words in ([], ["-m"], ["absent.py"]):
        done = run(folder, "-m", "kiln", "run", *words)
        assert done.returncode == 2 and done.stderr.startswith("kiln: run: "), done.stderr


class Squares(torch.utils.data.Dataset):
    def __init__(self, count):
        torch.manual_seed(3)
        self.x = torch.randn(count, 8)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.x[i].square().sum().reshape(1)}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 1)
        )

    def forward(self, x, labels=None):
        y = self.layers(x)
        return {"loss": torch.nn.functional.mse_loss(y, labels), "logits": y}


def trained(folder, device, compiled, resume=None):
    """The losses of a training with gradient accumulation, evaluation and checkpoints."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=6,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=1e-2,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=3,
        save_steps=3,
        seed=1,
        report_to=[],
        use_cpu=device == "cpu",
        tf32=False,  # else the Trainer switches it on where it compiles, and eager mode has other losses
        disable_tqdm=True,
        **compiled,
    )
    trainer = transformers.Trainer(
        Model(), arguments, train_dataset=Squares(64), eval_dataset=Squares(16)
    )
    # So does accelerate.
    torch.set_float32_matmul_precision("highest")
    trainer.train(resume_from_checkpoint=resume)
    logs = trainer.state.log_history
    losses = [log["loss"] for log in logs if "loss" in log]
    return losses, [log["eval_loss"] for log in logs if "eval_loss" in log]


ONE_GPU = pytest.mark.skipif(torch.cuda.device_count() != 1, reason="there is not one GPU here")


@pytest.mark.parametrize(
    ("device", "mode"),
    [
        ("cpu", None),
        pytest.param("cuda", None, marks=ONE_GPU),
        pytest.param("cuda", "reduce-overhead", marks=ONE_GPU),
    ],
)
def test_the_trainer_of_transformers_trains_as_in_eager_mode(tmp_path, device, mode):
    expected = trained(tmp_path / "eager", device, {})
    compiled = {"torch_compile": True, **({} if mode is None else {"torch_compile_mode": mode})}
    with kiln.replace_inductor():
        torch._dynamo.reset()
        losses, evaluations = trained(tmp_path / "kiln", device, compiled)
        assert len(losses) == 6 and len(evaluations) == 2
        assert (losses, evaluations) == (
            pytest.approx(expected[0], rel=1e-4),
            pytest.approx(expected[1], rel=1e-4),
        )
        assert kiln.counters["cache_hit"] + kiln.counters["cache_miss"] >= 2
        assert (kiln.counters["cudagraph_partitions"] > 0) == (mode is not None)
        checkpoint = os.path.join(tmp_path, "kiln", "checkpoint-3")
        again, _ = trained(tmp_path / "again", device, compiled, resume=checkpoint)
        assert again[-3:] == pytest.approx(expected[0][-3:], rel=1e-4)


def test_the_name_of_a_region_is_taken_as_newer_torch_gives_it():
    assert inductors_place._InPlace("default", None, None, name="region").compiler_name == "inductor"
    assert inductors_place._InPlace("default", None, None, "region") == inductors_place._InPlace("default")

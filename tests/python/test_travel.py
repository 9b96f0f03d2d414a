"""Daemons behind TCP, and artifacts that go from one machine to another."""

import re
import subprocess

import pytest
import torch

import kiln
from kiln import _native, background, service
from processes import answer_of, ctl, daemon_with_port, daemons, start

# Trains two steps; before, loads the bundle named first, after, writes the one named second.
TRAVEL = """
import json, sys, torch, torch.nn as nn
from pathlib import Path
import kiln
loads, saves = sys.argv[1:]
said = None
if loads != "-":
    try:
        said = kiln.load_artifacts(Path(loads).read_bytes())
    except kiln.KilnError as error:
        said = error.args[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 5))
x = torch.randn(12, 24)
called = torch.compile(model, backend="kiln")
for step in range(2):
    loss = called(x).square().mean(); model.zero_grad(); loss.backward()
if saves != "-":
    Path(saves).write_bytes(kiln.save_artifacts())
print(json.dumps({"said": said, "loss": float(loss), "grad": float(model[0].weight.grad.sum()),
                  **kiln.counters}))
"""


def travel(folder, *words, **environment):
    """Runs TRAVEL with nothing cached, of Kiln's or of AOTAutograd's."""
    folder.mkdir()
    own = {"KILN_CACHE_DIR": str(folder / "kiln"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch")}
    done = answer_of(start(TRAVEL, *map(str, words), **{**own, **environment}))
    assert daemons(folder / "kiln") == []  # the daemon named is the one that was asked
    return done


def test_a_daemon_behind_a_port_compiles_for_those_who_know_its_key(tmp_path):
    with daemon_with_port() as daemon:
        named = {"KILN_ADDR": f"unix:/nowhere/kilnd.sock, {daemon.address}"}
        done, errors = travel(tmp_path / "a", "-", "-", KILN_PUBLIC_KEY=daemon.key, **named)
        assert done["compiles"] == 2 and "local_compiles" not in done
        assert "no daemon" not in errors
        assert daemon.jobs() == 2
        # The tools find it too, and are refused: without TLS a port is not asked what it holds.
        with pytest.raises(subprocess.CalledProcessError) as raised:
            ctl("stats", KILN_PUBLIC_KEY=daemon.key, **named)
        assert "a plain TCP port has no admin service" in raised.value.stderr


def test_another_machine_with_the_same_daemon_compiles_nothing(tmp_path):
    # Nothing is shared but the address: each has a cache of AOTAutograd's, and would have a
    # daemon and a cache of Kiln's, of its own.
    with daemon_with_port() as daemon:
        named = {"KILN_ADDR": daemon.address, "KILN_PUBLIC_KEY": daemon.key}
        cold, _ = travel(tmp_path / "a", "-", "-", **named)
        assert cold["compiles"] == 2 and daemon.jobs() == 2
        hits = daemon.counters()["cache.hits"]
        warm, errors = travel(tmp_path / "b", "-", "-", **named)
        assert "compiles" not in warm and warm["cache_hit"] == 2
        assert "local_compiles" not in warm and "no daemon" not in errors
        assert daemon.jobs() == 2 and daemon.counters()["cache.hits"] == hits + 2
        assert (warm["loss"], warm["grad"]) == (cold["loss"], cold["grad"])
        assert not (tmp_path / "b" / "kiln").exists()


def test_a_daemon_behind_a_port_with_another_key_or_none_is_one_clear_error(tmp_path):
    with daemon_with_port() as daemon:
        for key, words in (
            ("", "found no public key for it; set KILN_PUBLIC_KEY"),
            ("0" * 64, "not one of the 1 trusted keys"),
            ("rabbit", "KILN_PUBLIC_KEY: found 'rabbit', expected 64 hexadecimal digits"),
        ):
            environment = {"KILN_ADDR": daemon.address, "KILN_PUBLIC_KEY": key}
            process = start(TRAVEL, "-", "-", **environment)
            _, errors = process.communicate(timeout=500)
            assert process.returncode != 0
            assert words in errors
        assert daemon.jobs() == 0


def test_another_machine_with_a_bundle_compiles_nothing(tmp_path):
    bundle = tmp_path / "bundle"
    with daemon_with_port() as first, daemon_with_port() as second:
        cold, _ = travel(tmp_path / "a", "-", bundle, KILN_ADDR=f"unix:{first.socket}")
        assert cold["compiles"] == 2
        trusting = {"KILN_ADDR": f"unix:{second.socket}", "KILN_PUBLIC_KEY": first.key}
        warm, _ = travel(tmp_path / "b", bundle, "-", **trusting)
        assert warm["said"] == 2
        assert "compiles" not in warm and warm["cache_hit"] == 2
        assert (warm["loss"], warm["grad"]) == (cold["loss"], cold["grad"])
        assert second.jobs() == 0

        # Who does not trust the signer takes nothing, and compiles.
        stranger, _ = travel(tmp_path / "c", bundle, "-", KILN_ADDR=f"unix:{second.socket}")
        assert stranger["said"] == "ARTIFACT_UNTRUSTED"
        assert stranger["compiles"] == 2 and second.jobs() == 2

        # Nor does anybody take one that was changed.
        bytes_ = bytearray(bundle.read_bytes())
        bytes_[len(bytes_) // 2] ^= 1
        bundle.write_bytes(bytes_)
        changed, _ = travel(tmp_path / "d", bundle, "-", **trusting)
        assert changed["said"] == "ARTIFACT_CORRUPT"
        assert changed["loss"] == cold["loss"]


def test_a_bundle_that_was_cut_short_is_refused():
    torch.compile(lambda x: x * 3 + 1, backend="kiln")(torch.ones(3))
    bundle = kiln.save_artifacts()
    assert kiln.load_artifacts(bundle) >= 1  # signed by the daemon in use
    for cut in (0, 7, 39, len(bundle) - 1):
        with pytest.raises(kiln.KilnError, match="ARTIFACT_CORRUPT"):
            kiln.load_artifacts(bundle[:cut])
    with pytest.raises(TypeError):
        kiln.load_artifacts("text")


def test_what_was_compiled_without_a_daemon_is_left_out_with_a_warning(tmp_path):
    bundle = tmp_path / "bundle"
    done, errors = travel(tmp_path / "a", "-", bundle, KILN_ADDR="unix:/nowhere/kilnd.sock")
    assert done["local_compiles"] == 2
    assert "save_artifacts: left out 2 that were compiled without a daemon" in errors
    assert kiln.load_artifacts(bundle.read_bytes()) == 0


def test_a_long_compile_tells_of_its_graphs_and_kernels(monkeypatch, capfd):
    monkeypatch.setattr(background, "_QUIET_SECONDS", 0.005)
    salt = {"cache_tag": f"progress {service.process}", "no_fusion": True}

    def fn(x):
        for i in range(12):
            x = torch.softmax(x * (i + 2), -1) + i
        return x

    torch.compile(fn, backend="kiln", options=salt)(torch.randn(7, 9))
    lines = [line for line in capfd.readouterr().err.splitlines() if "compiling" in line]
    form = r"kiln: compiling 1 graph, (\d+)/(\d+) kernels, \d+ s \.\.\."
    counted = [re.fullmatch(form, line) for line in lines]
    totals = {int(match.group(2)) for match in counted if match}
    assert len(totals) == 1 and min(totals) > 12
    assert all(int(match.group(1)) <= int(match.group(2)) for match in counted if match)
    assert _native.progress() == (0, 0)

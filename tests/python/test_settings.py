"""Whom a process asks, and what it shows: the environment, and kiln.toml."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from processes import Daemon, answer_of, start
from test_travel import TRAVEL

from kiln import service, settings, telling

KEY = "ab" * 32


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    for name in [*settings._KEYS, "KILN_CONFIG"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(telling, "_told", {})


def write(tmp_path, text):
    file = tmp_path / "kiln" / "kiln.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def test_the_file_says_what_the_environment_does_not(tmp_path, monkeypatch):
    write(
        tmp_path,
        f"""
        [daemon]
        addresses = ["kiln-a:7310", "unix:/run/kilnd.sock"]
        public_keys = ["{KEY}"]
        tls_ca = "ca.pem"
        token_file = "/etc/kiln/token"
        namespace = "team-a"
        urgency = "prewarm"
        """,
    )
    assert settings.named_addresses() == ["kiln-a:7310", "unix:/run/kilnd.sock"]
    assert settings.public_keys() == [bytes.fromhex(KEY)]
    assert settings.named("KILN_TLS_CA") == str(tmp_path / "kiln" / "ca.pem")
    assert settings.named("KILN_TOKEN_FILE") == "/etc/kiln/token"
    assert settings.named("KILN_TLS_KEY") is None
    assert settings.urgency() == 2

    monkeypatch.setenv("KILN_NAMESPACE", "team-b")
    monkeypatch.setenv("KILN_ADDR", "unix:/other.sock")
    assert settings.named("KILN_NAMESPACE") == "team-b"
    assert settings.named_addresses() == ["unix:/other.sock"]
    assert settings.urgency() == 2


def test_the_example_has_every_word(monkeypatch):
    example = Path(__file__).parents[2] / "deploy" / "kiln.example.toml"
    text = example.read_text().replace("# tls_", "tls_")
    copy = Path(os.environ["XDG_CONFIG_HOME"]) / "example.toml"
    copy.write_text(text)
    monkeypatch.setenv("KILN_CONFIG", str(copy))
    assert all(settings.named(variable) for variable in settings._KEYS)
    assert len(settings.named_addresses()) == 2 and settings.urgency() == 0


def test_a_file_that_is_named_is_the_one(tmp_path, monkeypatch):
    write(tmp_path, '[daemon]\nnamespace = "not-this"')
    other = tmp_path / "other.toml"
    other.write_text('[daemon]\nnamespace = "this"')
    monkeypatch.setenv("KILN_CONFIG", str(other))
    assert settings.named("KILN_NAMESPACE") == "this"
    monkeypatch.setenv("KILN_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(ValueError, match="none.toml: cannot be taken .No such file"):
        settings.named("KILN_NAMESPACE")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[daemon", "kiln.toml: "),
        ("[demon]", "kiln.toml: found 'demon', expected [daemon] alone"),
        ("daemon = 3", "kiln.toml: found 'daemon', expected [daemon] alone"),
        ('[daemon]\nadress = "a:1"', "kiln.toml: found 'adress' in [daemon], expected one of addresses,"),
        ("[daemon]\naddresses = [1]", "kiln.toml: addresses: found [1], expected a list of strings"),
        ("[daemon]\nnamespace = 1", "kiln.toml: namespace: found 1, expected a string"),
        ('[daemon]\naddresses = ["gopher"]', "kiln.toml: addresses: found 'gopher', expected unix:"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path, text, words):
    write(tmp_path, text)
    with pytest.raises(ValueError) as raised:
        settings.named_addresses()
    assert words in str(raised.value)


def test_a_key_or_urgency_that_is_none_names_the_file(tmp_path):
    file = write(tmp_path, '[daemon]\npublic_keys = "rabbit"\nurgency = "soon"')
    with pytest.raises(ValueError, match=f"{file}: public_keys: found 'rabbit', expected 64"):
        settings.public_keys()
    with pytest.raises(ValueError, match=f"{file}: urgency: found 'soon', expected one of interactive"):
        settings.urgency()


def test_a_file_that_others_may_write_is_not_taken(tmp_path):
    file = write(tmp_path, '[daemon]\naddresses = "unix:/theirs.sock"')
    file.chmod(0o666)
    with pytest.raises(ValueError, match="kiln.toml: cannot be taken .other users can write it"):
        settings.named_addresses()


def test_an_address_that_nobody_vouches_for_says_so_once_and_is_asked_nothing(monkeypatch):
    monkeypatch.setenv("KILN_ADDR", "kiln-a:7310,unix:/run/kilnd.sock,kiln-b:7310")
    told = []
    monkeypatch.setattr(telling, "tell", told.append)
    for _ in range(3):
        assert settings.trusted_addresses() == ["unix:/run/kilnd.sock"]
    assert [text.split(": found no public key")[0] for text in told] == [
        "KILN_ADDR: kiln-a:7310",
        "KILN_ADDR: kiln-b:7310",
    ]
    monkeypatch.setenv("KILN_ADDR", "kiln-a:7310")
    with pytest.raises(ValueError, match="kiln-a:7310: found no public key for it; set KILN_PUBLIC_KEY"):
        settings.trusted_addresses()
    monkeypatch.setenv("KILN_PUBLIC_KEY", KEY)
    assert settings.trusted_addresses() == ["kiln-a:7310"]


# Three graphs, none of which can be compiled for the same reason.
THREE_GRAPHS = """
import json, warnings
import torch
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    layer = torch.nn.Linear(4, 2)
    torch.compile(layer, backend="kiln")(torch.ones(3, 4)).sum().backward()
    torch.compile(lambda x: x * 2, backend="kiln")(torch.ones(3))
import kiln
told = [str(w.message) for w in seen if "kiln" in str(w.message)]
print(json.dumps({"told": told, **kiln.counters}))
"""


def test_a_wrong_setting_is_told_of_once_however_many_graphs_there_are():
    done, _ = answer_of(start(THREE_GRAPHS, KILN_STRICT="0", KILN_ADDR="localhost:1"))
    assert done["eager_graphs"] == 3
    (told,) = done["told"]
    assert told.startswith("kiln: graphs run in eager mode: KILN_ADDR: localhost:1: found no public")


@pytest.fixture
def short_folder():
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:  # short enough for a socket's path
        yield Path(folder)


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def certificates(folder):
    """An authority's ca.pem, and a certificate and key for 127.0.0.1 that it signed."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(
        folder,
        *("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority"),
    )
    openssl(folder, "req", *key, "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=kilnd")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    openssl(
        folder,
        *("x509", "-req", "-in", "tls.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-out", "tls.pem", "-extfile", "names"),
    )


def kiln_toml(folder, daemon, token):
    (folder / "token").write_text(token)
    (folder / "token").chmod(0o600)
    file = folder / "kiln.toml"
    file.write_text(
        f"""
        [daemon]
        addresses = ["{daemon.address}"]
        public_keys = ["{daemon.key}"]
        tls_ca = "ca.pem"
        token_file = "token"
        namespace = "team-a"
        """
    )
    return str(file)


def test_a_program_trains_over_tls_with_a_token_and_nothing_in_its_environment(tmp_path, short_folder):
    certificates(short_folder)
    (short_folder / "kilnd.toml").write_text(
        f'[listen]\ntls_certificate = "{short_folder}/tls.pem"\ntls_key = "{short_folder}/tls.key"\n'
    )
    daemon = Daemon(short_folder, "--config", f"{short_folder}/kilnd.toml")
    try:
        words = ["tokens", "add", "ci", "--role", "submitter", "--namespace", "team-a"]
        token = daemon.ask(*words)["token"]
        file = kiln_toml(short_folder, daemon, token)
        own = {
            "KILN_CACHE_DIR": str(tmp_path / "kiln"),
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch"),
        }
        process = start(TRAVEL, "-", "-", KILN_CONFIG=file, **own)
        done, errors = answer_of(process)
        assert done["compiles"] == 2 and "local_compiles" not in done, errors
        assert daemon.jobs() == 2

        daemon.ask("tokens", "revoke", "ci")
        again = {**own, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "other")}
        process = start(TRAVEL, "-", "-", KILN_CONFIG=file, **again)
        _, errors = process.communicate(timeout=500)
        assert process.returncode != 0 and daemon.jobs() == 2
        assert "UNAUTHENTICATED" in errors and "it was revoked" in errors
    finally:
        daemon.end()


def test_the_tools_find_the_daemon_that_the_file_names(tmp_path, monkeypatch):
    write(tmp_path, '[daemon]\naddresses = "unix:/nowhere/kilnd.sock"')
    done = subprocess.run(
        [sys.executable, "-m", "kiln", "cache", "ls"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "/nowhere/kilnd.sock" in done.stderr
    assert service.address_in_use() == "unix:/nowhere/kilnd.sock"

"""What ``python -m kiln`` says of a setting that is wrong, and whose folder doctor looks at."""

import importlib.metadata

import pytest
from processes import answer_of, daemon_with_port, run_kiln, start

import kiln


@pytest.mark.parametrize(
    ("settings", "due"),
    [
        (
            {"KILN_CACHE_DIR": "/dev/null/kiln"},
            "KILN_CACHE_DIR: /dev/null/kiln cannot be written (Not a directory): "
            "name another folder",
        ),
        (
            {"KILN_ADDR": "localhost:1", "KILN_PUBLIC_KEY": ""},
            "KILN_ADDR: localhost:1: found no public key for it; set KILN_PUBLIC_KEY to the key "
            "that `compilectl keys list` shows on the daemon's machine",
        ),
        ({"KILN_OPTIONS": "nonsense=1"}, "KILN_OPTIONS: nonsense: there is no such option"),
        ({"KILN_OPTIONS": "no_fusion=5"}, "KILN_OPTIONS: no_fusion: found '5', expected 0 or 1"),
    ],
    ids=["folder", "key", "option", "value"],
)
def test_a_setting_that_is_wrong_is_an_error_of_a_line_that_names_it(folders, settings, due):
    done = run_kiln("cache", "ls", **{**folders, **settings})
    assert done.returncode == 1
    assert done.stderr.startswith(f"kiln: {due}")
    assert done.stderr.find("\n") == len(done.stderr) - 1


def test_doctor_looks_at_the_folder_of_the_daemon_that_is_named(folders):
    with daemon_with_port() as daemon:
        done = run_kiln("doctor", KILN_ADDR=f"unix:{daemon.socket}", **folders)
        assert daemon.socket.removesuffix("kilnd.sock") + "data" in done.stdout
    assert folders["KILN_CACHE_DIR"] not in done.stdout
    done = run_kiln("doctor", **folders)
    assert folders["KILN_CACHE_DIR"] in "".join(done.stdout.split())


FIRST_ERROR = """
import json
import kiln
try:
    kiln.load_artifacts(b"hello")
except kiln.KilnError as error:
    said = [str(error), *error.args[1:]]
print(json.dumps(said))
"""


def test_an_error_is_a_sentence_before_anything_was_compiled(tmp_path):
    said, _ = answer_of(start(FIRST_ERROR, KILN_CACHE_DIR=str(tmp_path)))
    assert said[0] == f"{said[1]}: {said[2]}"
    assert said[1] == "ARTIFACT_CORRUPT"


def test_a_bundles_path_is_not_its_bytes():
    with pytest.raises(TypeError, match="found str, expected the bytes of a bundle"):
        kiln.load_artifacts("/tmp/model.kiln")


def test_the_package_names_its_version_and_what_it_offers():
    assert kiln.__version__ == importlib.metadata.version("kiln")
    assert {*kiln.__all__, "__version__"} == {*dir(kiln)}
    assert all(hasattr(kiln, name) for name in dir(kiln))
    assert "max_fusion_size=" in repr(kiln.config)

"""What ``python -m kiln`` says of a setting that is wrong, and whose folder doctor looks at."""

import pytest
from processes import daemon_with_port, run_kiln


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
            "KILN_ADDR: localhost:1 takes KILN_PUBLIC_KEY, the daemon's key as "
            "`compilectl version` tells it beside the daemon",
        ),
        ({"KILN_OPTIONS": "nonsense=1"}, "KILN_OPTIONS: nonsense: there is no such option"),
        ({"KILN_OPTIONS": "no_fusion=5"}, "KILN_OPTIONS: no_fusion: found '5', due 0 or 1"),
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

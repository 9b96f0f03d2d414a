"""Names of Python files are there, also where only a GPU would run them."""

import ast
from pathlib import Path

import pytest
from pyflakes import checker, messages

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("client/python", "tests/python", "tests/seeds", "bench", "deploy")


def unsound(source: str, path: str) -> list[str]:
    found = checker.Checker(ast.parse(source, path), path)
    # A variable may be there to hold what it names.
    return [str(m) for m in found.messages if not isinstance(m, messages.UnusedVariable)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_a_file_names_it_has_and_what_it_imports_it_names(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    sources = [(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))) for path in files]
    # A line that tells another checker to leave it alone is left alone here too.
    found = [
        message
        for source, path in sources
        for message in unsound(source, path)
        if "# noqa" not in source.splitlines()[int(message.split(":")[1]) - 1]
    ]
    assert not found, "\n".join(found)


def test_a_name_that_is_not_there_is_found():
    (said,) = unsound("def f():\n    return kept\n", "f.py")
    assert said == "f.py:2:12: undefined name 'kept'"

"""Which tests there are, and which a table of SECURITY.md names in its last column."""

import re

CASE = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)")
PYTHON_CASE = re.compile(r"\bdef (test_\w+)")
TARGET = re.compile(r'\bname = "(\w+_test)"')


class Tests:
    """The names in {path: text} of tests and their BUILD files."""

    def __init__(self, texts):
        self.suites, self.cases, self.targets, self.python = set(), set(), set(), set()
        for path, text in texts.items():
            stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
            if path.endswith(".cc"):
                self.targets.add(stem)
                for suite, case in CASE.findall(text):
                    self.suites.add(suite)
                    self.cases.add(case)
            elif path.endswith(".py"):
                self.python |= set(PYTHON_CASE.findall(text))
                self.python.add(stem)
            else:
                self.targets |= set(TARGET.findall(text))


def unknown_names(markdown, tests):
    """The names in the last column of the tables that no test has, sorted."""
    unknown = set()
    for line in markdown.splitlines():
        if not line.startswith("|"):
            continue
        cell = line.rstrip("| ").rsplit(" | ", 1)[-1]
        unknown |= set(re.findall(r"\b[a-z]\w*_test\b", cell)) - tests.targets
        unknown |= set(re.findall(r"\btest_\w+", cell)) - tests.python
        unknown |= set(re.findall(r"\b([A-Z]\w+)\.(?:\*|[A-Z])", cell)) - tests.suites
        words = set(re.findall(r"\b[A-Z][A-Za-z0-9]*[a-z][A-Z][A-Za-z0-9]{6,}\b", cell))
        unknown |= words - tests.cases - tests.suites
    return sorted(unknown)

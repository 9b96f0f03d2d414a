"""The house rules that a reader of includes and BUILD files can check."""

import os
import re
import unittest

from tests.structure import arrows, sizes

ROOT = os.path.dirname(os.path.realpath("WORKSPACE"))
SOURCES = (".h", ".cc", ".proto", ".py", ".sh", ".bzl")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def tree():
    """Paths of all files of the project, sorted."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        # bazel-* are links into the output tree; build/ is made.
        folders[:] = sorted(
            f for f in folders if not f.startswith((".", "bazel-")) and f != "build"
        )
        for file in files:
            found.append(os.path.relpath(os.path.join(folder, file), ROOT))
    return sorted(found)


FILES = tree()
CODE = [f for f in FILES if f.endswith((".h", ".cc"))]


class Arrows(unittest.TestCase):
    def test_no_include_points_upwards(self):
        faults = []
        for source in CODE:
            for target in arrows.includes_of(read(source)):
                fault = arrows.arrow_fault(source, target)
                if fault:
                    faults.append(f"{source} includes {target}: {fault}")
        self.assertEqual(faults, [], "\n".join(faults))

    def test_no_include_goes_in_a_circle(self):
        includes = {f: arrows.includes_of(read(f)) for f in CODE}
        self.assertIsNone(arrows.circle_in(includes))

    def test_no_build_file_points_upwards(self):
        faults = []
        for path in FILES:
            if os.path.basename(path) != "BUILD.bazel":
                continue
            folder = os.path.dirname(path)
            for rule, name, labels in arrows.build_deps(read(path)):
                # A program joins rooms; its main is checked as a file.
                if rule == "cc_binary":
                    continue
                for label in labels:
                    target = label[2:].split(":")[0] + "/x.h"
                    fault = arrows.arrow_fault(f"{folder}/{name}.h", target)
                    if fault:
                        faults.append(f"//{folder}:{name} needs {label}: {fault}")
        self.assertEqual(faults, [], "\n".join(faults))

    def test_includes_are_by_full_path_from_the_root(self):
        # A room's file is named as it stands in the tree, or it is generated.
        faults = []
        for source in CODE:
            for target in arrows.includes_of(read(source)):
                if target.split("/")[0] not in arrows.ROOMS or ".pb." in target:
                    continue
                if not os.path.exists(os.path.join(ROOT, target)):
                    faults.append(f"{source} includes {target}, which is not there")
        self.assertEqual(faults, [], "\n".join(faults))


class Sizes(unittest.TestCase):
    def test_no_file_is_over_500_lines(self):
        faults = []
        for path in FILES:
            lines = read(path).count("\n") if path.endswith(SOURCES) else 0
            if lines > sizes.MAX_FILE_LINES:
                faults.append(f"{path}: {lines} lines, at most {sizes.MAX_FILE_LINES}")
        self.assertEqual(faults, [], "\n".join(faults))

    def test_nine_files_in_ten_are_under_400_lines(self):
        lengths = [read(f).count("\n") for f in CODE]
        usual = sum(1 for lines in lengths if lines <= sizes.USUAL_FILE_LINES)
        self.assertGreaterEqual(usual, 0.9 * len(lengths))

    def test_no_function_is_over_60_lines(self):
        faults = []
        for path in CODE:
            if path.startswith("tests/"):
                continue
            for line, length in sizes.long_functions(read(path)):
                faults.append(f"{path}:{line}: a function of {length} lines")
        self.assertEqual(faults, [], "\n".join(faults))


class Words(unittest.TestCase):
    def test_no_environment_or_flag_is_read_outside_of_a_main(self):
        faults = []
        for path in CODE:
            if path.startswith("tests/") or path.endswith("_main.cc"):
                continue
            code = re.sub(r"//.*", "", read(path))
            if re.search(r"\b(getenv|GetFlag)\s*\(", code):
                faults.append(path)
        self.assertEqual(faults, [])

    def test_every_error_reason_is_explained(self):
        reasons = re.findall(
            r'\{ErrorReason::k\w+,\s*"(\w+)",\s*absl::StatusCode::k(\w+)\}',
            read("proto/base/status.cc"),
        )
        declared = re.search(
            r"enum class ErrorReason \{(.*?)\};", read("proto/base/status.h"), re.DOTALL
        ).group(1)
        self.assertEqual(len(reasons), len(re.findall(r"^\s*k\w+,", declared, re.MULTILINE)))
        documented = re.findall(
            r"^\| `(\w+)` \| (\w+) \|", read("docs/errors.md"), re.MULTILINE
        )
        due = [(name, re.sub(r"(?<!^)(?=[A-Z])", "_", code).upper()) for name, code in reasons]
        self.assertEqual(sorted(documented), sorted(due))


class TheRulesThemselves(unittest.TestCase):
    """A planted fault is found."""

    def test_upward_includes_are_faults(self):
        for source, target in (
            ("cache/a.cc", "compiler/compiler.h"),
            ("compiler/graph/graph.cc", "compiler/loop/loop_nest.h"),
            ("runtime/a.h", "cache/b.h"),
            ("proto/base/a.h", "proto/key/b.h"),
            ("proto/base/a.h", "cache/b.h"),
            ("client/a.h", "server/b.h"),
            ("server/a.h", "tests/support/b.h"),
            ("compiler/nowhere/a.h", "compiler/sym/b.h"),
        ):
            self.assertIsNotNone(arrows.arrow_fault(source, target), (source, target))

    def test_downward_includes_are_none(self):
        for source, target in (
            ("server/a.cc", "cache/b.h"),
            ("compiler/compiler.cc", "compiler/emit/b.h"),
            ("compiler/graph/a.cc", "compiler/pass/b.h"),
            ("compiler/compile_worker_main.cc", "runtime/stopwatch.h"),
            ("tests/x/a_test.cc", "server/b.h"),
        ):
            self.assertIsNone(arrows.arrow_fault(source, target), (source, target))

    def test_a_circle_is_found(self):
        self.assertEqual(
            arrows.circle_in({"a": ["b"], "b": ["c"], "c": ["b"]}), ["b", "c", "b"]
        )
        self.assertIsNone(arrows.circle_in({"a": ["b", "c"], "b": ["c"], "c": []}))

    def test_a_long_function_is_found(self):
        body = "  x();\n" * 70
        text = f"namespace k {{\nnamespace {{\n\nint F() {{\n{body}}}\n\n}}\n}}\n"
        self.assertEqual(sizes.long_functions(text), [(4, 72)])
        rows = f"constexpr int kRows[] = {{\n{body}}};\n"
        self.assertEqual(sizes.long_functions(rows), [])

    def test_deps_of_a_build_file_are_read(self):
        self.assertEqual(
            arrows.build_deps('cc_library(name = "a", deps = ["//cache:b", ":c"])'),
            [("cc_library", "a", ["//cache:b"])],
        )


if __name__ == "__main__":
    unittest.main()

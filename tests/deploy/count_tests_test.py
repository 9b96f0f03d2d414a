"""deploy/count_tests.py on build events as bazel writes them."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

GTEST_XML = """<testsuites><testsuite>
<testcase name="a" status="run"/>
<testcase name="b" status="run"><failure message="no"/></testcase>
<testcase name="c" status="notrun"/>
<testcase name="d" status="run"><skipped/></testcase>
<testcase name="e" status="run"><skipped message="file.cc:7&#x0A;no GPU&#x0A;"/></testcase>
</testsuite></testsuites>"""


def result(label, status, xml=""):
    output = [{"name": "test.xml", "uri": "file://" + xml}] if xml else []
    return {
        "id": {"testResult": {"label": label}},
        "testResult": {"status": status, "testActionOutput": output},
    }


def not_built(label):
    return {"id": {"targetCompleted": {"label": label}}, "completed": {}}


class CountTests(unittest.TestCase):
    def run_on(self, events, bazel_status, end=""):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write("".join(json.dumps(event) + "\n" for event in events) + end)
            file.flush()
            done = subprocess.run(
                [sys.executable, "deploy/count_tests.py", file.name, str(bazel_status)],
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
        return done.stdout.strip().split("\n"), done.returncode

    def xml(self, text):
        path = os.path.join(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")), "t.xml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_cases_are_counted_and_skipped_ones_apart(self):
        lines, status = self.run_on([result("//a", "FAILED", self.xml(GTEST_XML))], 3)
        self.assertEqual(
            lines,
            [
                "failed: //a",
                "skipped: 2: 1 in //a (no GPU); 1 in //a (no ground given)",
                "1 passed, 1 failed",
            ],
        )
        self.assertEqual(status, 1)

    def test_a_target_whose_cases_are_all_skipped_has_passed_nothing(self):
        xml = self.xml('<testsuite><testcase name="a" status="run" result="skipped"/></testsuite>')
        lines, status = self.run_on([result("//a", "PASSED", xml)], 0)
        self.assertEqual(lines, ["skipped: 1: 1 in //a (no ground given)", "0 passed, 0 failed"])
        self.assertEqual(status, 0)

    def test_a_test_without_cases_counts_as_one(self):
        lines, status = self.run_on([result("//a", "PASSED"), result("//b", "PASSED")], 0)
        self.assertEqual(lines, ["2 passed, 0 failed"])
        self.assertEqual(status, 0)

    def test_a_program_that_died_has_failed_whatever_its_cases_say(self):
        good = self.xml('<testsuite><testcase name="a" status="run"/></testsuite>')
        lines, status = self.run_on([result("//a", "FAILED", good)], 3)
        self.assertEqual(lines[-1], "1 passed, 1 failed")
        self.assertEqual(status, 1)

    def test_a_target_that_was_not_built_has_failed(self):
        lines, status = self.run_on([not_built("//a"), result("//b", "PASSED")], 1)
        self.assertEqual(lines, ["failed: //a (not built)", "1 passed, 1 failed"])
        self.assertEqual(status, 1)

    def test_what_a_stopped_run_left_is_one_line(self):
        events = [result("//a", "PASSED"), result("//b", "NO_STATUS"), not_built("//c"), not_built("//d")]
        lines, status = self.run_on(events, 8)
        self.assertEqual(
            lines,
            ["stopped: 3 targets were not built, or not tested to their end", "1 passed, 0 failed"],
        )
        self.assertEqual(status, 1)

    def test_a_target_that_is_not_for_this_configuration_counts_for_nothing(self):
        left_out = {
            "id": {"targetCompleted": {"label": "//a"}},
            "aborted": {"reason": "SKIPPED", "description": "build was skipped."},
        }
        lines, status = self.run_on([left_out, result("//b", "PASSED")], 0)
        self.assertEqual(
            lines, ["skipped: 1: 1 in //a (not for this configuration)", "1 passed, 0 failed"]
        )
        self.assertEqual(status, 0)

    def test_what_bazel_alone_knows_of_is_a_failure_too(self):
        lines, status = self.run_on([], 37)
        self.assertEqual(lines, ["failed: bazel itself, with status 37", "0 passed, 1 failed"])
        self.assertEqual(status, 1)

    def test_a_list_that_ends_in_the_middle_is_a_failure(self):
        lines, status = self.run_on([result("//a", "PASSED")], 0, end='{"id": {"tes')
        self.assertEqual(
            lines,
            [
                "failed: bazel wrote its list of results only in part: is the disk full?",
                "1 passed, 1 failed",
            ],
        )
        self.assertEqual(status, 1)


if __name__ == "__main__":
    unittest.main()

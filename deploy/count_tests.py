"""Says "N passed, N failed" of one `bazel test`, from its build events.

usage: count_tests.py EVENTS.json BAZEL_STATUS

Counts test cases: those of each target's test.xml, or one for a target without
a list of its own. A target that was not built counts as one failure. Cases that
were skipped (they need what this machine lacks) are neither: a line before the
last says how many there were, and where. Exits 1 when anything failed, or when
bazel says that something did.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree


def count_cases(path):
    """(passed, failed, skipped) of a test.xml, or None when it has no cases."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return None
    passed = failed = skipped = 0
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            skipped += 1
        elif case.get("status") != "notrun":
            passed += 1
    return (passed, failed, skipped) if passed + failed + skipped else None


def main():
    events_path, bazel_status = sys.argv[1], int(sys.argv[2])
    passed = failed = 0
    skipped = {}
    broken = []
    with open(events_path, encoding="utf-8") as events:
        for line in events:
            event = json.loads(line)
            result = event.get("testResult")
            if result:
                good = result.get("status") == "PASSED"
                path = next(
                    (
                        urllib.parse.unquote(urllib.parse.urlparse(f["uri"]).path)
                        for f in result.get("testActionOutput", [])
                        if f["name"] == "test.xml"
                    ),
                    "",
                )
                cases = count_cases(path) or ((1, 0, 0) if good else (0, 1, 0))
                # A program that died after its last case has failed too.
                if not good and cases[1] == 0:
                    cases = (cases[0], 1, cases[2])
                passed += cases[0]
                failed += cases[1]
                label = event["id"]["testResult"]["label"]
                if cases[2]:
                    skipped[label] = cases[2]
                if not good:
                    broken.append(label)
            summary = event.get("id", {}).get("targetCompleted")
            if summary and not event.get("completed", {}).get("success", False):
                broken.append(summary["label"] + " (not built)")
                failed += 1
    for label in sorted(set(broken)):
        print("failed:", label)
    if bazel_status != 0 and failed == 0:
        print(f"failed: bazel itself, with status {bazel_status}")
        failed = 1
    if skipped:
        where = ", ".join(f"{label} ({count})" for label, count in sorted(skipped.items()))
        print(f"skipped: {sum(skipped.values())}, in {where}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

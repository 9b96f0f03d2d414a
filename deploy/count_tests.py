"""Says "N passed, N failed" of one `bazel test`, from its build events.

usage: count_tests.py EVENTS.json BAZEL_STATUS

Counts test cases: those of each target's test.xml, or one for a target without
a list of its own. A target that was not built counts as one failure. Cases that
were skipped (they need what this machine lacks) and targets that this
configuration leaves out (target_compatible_with) are neither: a line before the
last says how many there were, where and why. Exits 1 when anything failed, when
bazel says that something did, or when the list of events ends in the middle (a full
disk): what comes after that is not known. When bazel was interrupted, targets that
were not built are counted in one line of their own.
"""

import collections
import json
import re
import sys
import urllib.parse
import xml.etree.ElementTree

# What bazel ends with when somebody stopped it.
INTERRUPTED = 8
# How a test ends that nobody stopped.
ENDED = ("PASSED", "FLAKY", "FAILED", "TIMEOUT", "REMOTE_FAILURE")


def ground_of(skipped):
    """Why a case was skipped, in a line: gtest puts the place before it."""
    words = "" if skipped is None else skipped.get("message") or skipped.text or ""
    lines = [line.strip() for line in words.splitlines()]
    said = [line for line in lines if line and not re.fullmatch(r"\S+:\d+", line)]
    return said[0] if said else "no ground given"


def count_cases(path):
    """(passed, failed, {ground: skipped}) of a test.xml; None when it has no cases."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return None
    passed = failed = 0
    skipped = collections.Counter()
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            skipped[ground_of(case.find("skipped"))] += 1
        elif case.get("status") != "notrun":
            passed += 1
    return (passed, failed, skipped) if passed + failed or skipped else None


def main():
    events_path, bazel_status = sys.argv[1], int(sys.argv[2])
    passed = failed = stopped = 0
    skipped = collections.Counter()
    broken = []
    with open(events_path, encoding="utf-8") as events:
        for line in events:
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                print("failed: bazel wrote its list of results only in part: is the disk full?")
                failed += 1
                break
            result = event.get("testResult")
            if result and bazel_status == INTERRUPTED and result.get("status") not in ENDED:
                stopped += 1
            elif result:
                good = result.get("status") == "PASSED"
                path = next(
                    (
                        urllib.parse.unquote(urllib.parse.urlparse(f["uri"]).path)
                        for f in result.get("testActionOutput", [])
                        if f["name"] == "test.xml"
                    ),
                    "",
                )
                cases = count_cases(path) or ((1, 0, {}) if good else (0, 1, {}))
                # A program that died after its last case has failed too.
                if not good and cases[1] == 0:
                    cases = (cases[0], 1, cases[2])
                passed += cases[0]
                failed += cases[1]
                label = event["id"]["testResult"]["label"]
                for ground, count in cases[2].items():
                    skipped[label, ground] += count
                if not good:
                    broken.append(label)
            summary = event.get("id", {}).get("targetCompleted")
            if not summary or event.get("completed", {}).get("success", False):
                continue
            if event.get("aborted", {}).get("reason") == "SKIPPED":
                skipped[summary["label"], "not for this configuration"] += 1
            elif bazel_status == INTERRUPTED:
                stopped += 1
            else:
                broken.append(summary["label"] + " (not built)")
                failed += 1
    for label in sorted(set(broken)):
        print("failed:", label)
    if bazel_status == INTERRUPTED:
        print(f"stopped: {stopped} targets were not built, or not tested to their end")
    elif bazel_status != 0 and failed == 0:
        print(f"failed: bazel itself, with status {bazel_status}")
        failed = 1
    if skipped:
        where = "; ".join(
            f"{count} in {label} ({ground})"
            for (label, ground), count in sorted(skipped.items())
        )
        print(f"skipped: {sum(skipped.values())}: {where}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or bazel_status == INTERRUPTED else 0)


if __name__ == "__main__":
    main()

"""What became of PyTorch's operators, in numbers and names.

usage: operator_tally.py FILE...      (files that the tests' --tally wrote)

An operator is counted by the last outcome of each kind. "No graph": Dynamo left all of its samples
to eager mode, so Kiln was asked nothing.
"""

import json
import sys

# Operators that ran without a host kernel, of those that Kiln was asked for; judged when at least
# as many were seen. The bar is 40.
LEAST_WHOLE_PERCENT, LEAST_SEEN = 65, 60


def append(path, outcomes):
    """Adds outcomes to a file, a line of JSON each."""
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(json.dumps(outcome.as_dict()) + "\n" for outcome in outcomes)


def read(*paths):
    """{(kind, operator): outcome} of files."""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                found[row["kind"], row["operator"]] = row
    return found


def _names(rows):
    return ", ".join(row["operator"] for row in rows) or "none"


def _summary_of(kind, rows):
    fit = [row for row in rows if row["verdict"] != "unfit"]
    right = [row for row in fit if row["verdict"] == "right"]
    asked = [row for row in right if row["graphs"]]
    whole = [row for row in asked if not row["hosts"]]
    bad = [row for row in fit if row["verdict"] != "right"]
    share = 100 * len(right) / max(len(fit), 1)
    whole_share = 100 * len(whole) / max(len(asked), 1)
    lines = [
        f"{kind}: {len(right)} of {len(fit)} operators right ({share:.1f} %), "
        f"{sum(row['verdict'] == 'wrong' for row in bad)} wrong; "
        f"{len(whole)} without a host kernel ({whole_share:.0f} % of {len(asked)})",
        f"  no sample that eager mode runs: {_names(r for r in rows if r['verdict'] == 'unfit')}",
        f"  no graph: {_names(row for row in right if not row['graphs'])}",
        f"  some samples in several graphs: {_names(r for r in asked if r['broken'])}",
    ]
    lines += [f"  {row['verdict']}: {row['operator']}: {row['why'].splitlines()[0]}" for row in bad]
    return lines


def summary(rows):
    """A few lines of text on what `read` gave."""
    lines = []
    for kind in sorted({kind for kind, _ in rows}):
        lines += _summary_of(kind, [row for (k, _), row in sorted(rows.items()) if k == kind])
    return "\n".join(lines)


def check_share(outcomes):
    """AssertionError when too many of the operators seen needed a host kernel."""
    asked = [outcome for outcome in outcomes if outcome.verdict == "right" and outcome.graphs]
    whole = sum(not outcome.hosts for outcome in asked)
    if len(asked) >= LEAST_SEEN:
        assert 100 * whole >= LEAST_WHOLE_PERCENT * len(asked), (
            f"{whole} of {len(asked)} operators ran without a host kernel, "
            f"expected {LEAST_WHOLE_PERCENT} %"
        )


if __name__ == "__main__":
    print(summary(read(*sys.argv[1:])))

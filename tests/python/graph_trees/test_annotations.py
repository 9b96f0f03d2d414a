"""Graphs that the program asks for or refuses in its own words: section 14.9 of the fact sheet."""

import pytest

import kiln
from annotated_programs import ROWS, needs_annotations, run
from trees import recordings


@needs_annotations
@pytest.mark.parametrize("row", ROWS)
def test_annotation(row):
    run(ROWS[row], "cuda", slow_path_cudagraph_asserts=True)
    if ROWS[row].graphs:
        assert recordings() == ROWS[row].graphs
    else:
        assert kiln.graph_tree_state() is None

"""Graphs that Kiln is made to refuse."""

from kiln.compiled_graph import CompiledGraph


def refuse(monkeypatch, kind):
    """Kiln refuses graphs whose names begin with `kind`, which are to run in eager mode."""
    compile_ = CompiledGraph._compile

    def refused(graph, exported):
        if graph.name.startswith(kind):
            raise LookupError("of the test")
        return compile_(graph, exported)

    monkeypatch.setattr(CompiledGraph, "_compile", refused)
    monkeypatch.setenv("KILN_STRICT", "0")

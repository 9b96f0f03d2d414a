"""Python that reads prose, or data that is code.

What Kiln says in words is for people; programs have reasons, codes and refusals (docs/errors.md). So
nobody asks what is in a message, a log or a kernel's name. And nothing that is sent or kept names code.
"""

import ast

# Modules whose data is code, or that look for patterns in texts.
CODE_IN_DATA = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "copyreg"}
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}
PICKLED_AS = {"__reduce__", "__reduce_ex__"}
# Where texts with a grammar of their own are read.
PATTERNS = {"settings.py": "addresses and keys that the user wrote"}

# Names that hold what somebody said.
SAID = {
    *("message", "msg", "error", "err", "exception", "said", "told", "words", "why", "stderr", "log"),
    *("refusal", "label", "kernel", "kernels", "line", "lines", "output"),
}
TELLS = {"str", "repr", "words_of", "text"}
LOOKS = {
    *("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "partition"),
    *("rpartition", "split", "rsplit", "search", "match", "fullmatch", "findall", "finditer"),
}


def _is_said(node):
    """Whether an expression is somebody's words."""
    if isinstance(node, ast.Name):
        return node.id in SAID
    if isinstance(node, ast.Attribute):
        return node.attr in SAID
    if isinstance(node, ast.Subscript):
        return _is_said(node.value) or (isinstance(node.value, ast.Attribute) and node.value.attr == "args")
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name == "text" or (name in TELLS and any(map(_is_said, node.args))):
            return True
        return isinstance(node.func, ast.Attribute) and _is_said(node.func.value)
    return False


def _is_words(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))


def _fault(node, file):
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
        for name in names:
            if name.partition(".")[0] in CODE_IN_DATA:
                return f"imports {name}"
            if name == "re" and file not in PATTERNS:
                return "imports re"
    if isinstance(node, ast.FunctionDef) and node.name in PICKLED_AS:
        return f"has {node.name}"
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in RUNS_TEXT:
            return f"calls {node.func.id}"
        if isinstance(node.func, ast.Attribute) and node.func.attr in LOOKS:
            if any(map(_is_words, node.args)) and _is_said(node.func.value):
                return f"reads prose by {node.func.attr}"
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        (right,) = node.comparators[:1]
        if _is_said(right) and not isinstance(node.left, ast.Constant):
            return None  # a member of a collection
        if _is_said(right) and _is_words(node.left):
            return "reads prose by in"
    return None


def faults_of(text, file):
    """["17: reads prose by startswith"] of a Python file."""
    return [
        f"{node.lineno}: {fault}"
        for node in ast.walk(ast.parse(text))
        if (fault := _fault(node, file)) is not None
    ]

"""cc_library, cc_binary and cc_test as we use them: C++ begins with the precompiled common header."""

_COMMON = "//deploy/bazel/common"
_INCLUDE = ["-include", "deploy/bazel/common/common.h"]

def _with_common(arguments):
    """The rule's arguments, where all its sources are C++."""
    sources = arguments.get("srcs", [])
    if type(sources) != "list" or not sources or [s for s in sources if not s.endswith((".cc", ".h"))]:
        return arguments
    return dict(
        arguments,
        copts = _INCLUDE + arguments.get("copts", []),
        deps = arguments.get("deps", []) + [_COMMON],
    )

def cc_library(**arguments):
    """The native rule's arguments."""
    native.cc_library(**_with_common(arguments))

def cc_binary(**arguments):
    """The native rule's arguments."""
    native.cc_binary(**_with_common(arguments))

def cc_test(**arguments):
    """The native rule's arguments."""
    native.cc_test(**_with_common(arguments))

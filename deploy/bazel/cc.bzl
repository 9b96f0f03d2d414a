"""cc_library, cc_binary and cc_test as we use them: C++ begins with a precompiled header."""

_HEADERS = "//deploy/bazel/common:"
_INCLUDE = "deploy/bazel/common/"

def _with_header(arguments):
    """The rule's arguments, where all its sources are C++ and compiled as everybody's."""
    sources = arguments.get("srcs", [])
    if type(sources) != "list" or not sources or arguments.get("copts"):
        return arguments
    if [source for source in sources if not source.endswith((".cc", ".h"))]:
        return arguments

    # What tests write themselves is seldom slow; what they test is compiled as it is delivered.
    package = native.package_name()
    header = "common"
    copts = []
    if package.startswith("tests/") and package != "tests/bench":
        header = "tests"
        copts = ["-O1"]
    return dict(
        arguments,
        copts = copts + ["-include", _INCLUDE + header + ".h"],
        deps = arguments.get("deps", []) + [_HEADERS + header],
    )

def cc_library(**arguments):
    """The native rule's arguments."""
    native.cc_library(**_with_header(arguments))

def cc_binary(**arguments):
    """The native rule's arguments."""
    native.cc_binary(**_with_header(arguments))

def cc_test(**arguments):
    """The native rule's arguments."""
    native.cc_test(**_with_header(arguments))

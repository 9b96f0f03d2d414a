"""cc_library, cc_binary and cc_test as we use them: C++ begins with a precompiled header."""

_HEADERS = "//deploy/bazel/common:"
_INCLUDE = "deploy/bazel/common/"

# The service: whatever is tested there runs under TSan too, but for two kinds of tests, which say so by a tag:
# "one_thread" starts no thread of ours, neither itself nor in a program that it runs (of RocksDB's, TSan sees no
# lock); "tsan_soak" needs the compiler, which is long to build under TSan.
_SERVICE = ("tests/proto/", "tests/cache/", "tests/server/", "tests/client/")
_NOT_WITH_TSAN = ["one_thread", "tsan_soak"]

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

def _with_tsan(arguments):
    """The rule's arguments, with the tag of `./kiln test --tsan` for packages of the service."""
    tags = arguments.get("tags", [])
    of_service = (native.package_name() + "/").startswith(_SERVICE)
    if not of_service or [tag for tag in tags if tag in _NOT_WITH_TSAN]:
        return arguments
    return dict(arguments, tags = tags + ["tsan"])

def cc_test(**arguments):
    """The native rule's arguments."""
    native.cc_test(**_with_tsan(_with_header(arguments)))

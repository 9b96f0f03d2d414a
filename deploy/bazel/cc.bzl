"""cc_library, cc_binary and cc_test as we use them: C++ begins with a precompiled header."""

_HEADERS = "//deploy/bazel/common:"
_INCLUDE = "deploy/bazel/common/"

# The service: whatever is tested there runs under TSan too (tag "tsan"), but for tests tagged "one_thread": they start no thread
# of ours, neither themselves nor in a program that they run (of RocksDB's, TSan sees no lock).
_SERVICE = ("tests/proto/", "tests/cache/", "tests/server/", "tests/client/")

# Where nearly every file reads gRPC's, Protobuf's or a thread's headers.
_SERVICE_HEADER = ("proto/", "cache/", "server/", "client/", "tests/support/") + _SERVICE

def _with_header(arguments):
    """The rule's arguments, where all its sources are C++ and compiled as everybody's."""
    sources = arguments.get("srcs", [])
    if type(sources) != "list" or not sources or arguments.get("copts"):
        return arguments
    if [source for source in sources if not source.endswith((".cc", ".h"))]:
        return arguments

    # What tests write themselves is seldom slow; what they test is compiled as it is delivered.
    package = native.package_name()
    of_service = (package + "/").startswith(_SERVICE_HEADER)
    header = "service" if of_service else "common"
    copts = []
    if package.startswith("tests/") and package != "tests/bench":
        header = "service_tests" if of_service else "tests"
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
    if not of_service or "one_thread" in tags:
        return arguments
    return dict(arguments, tags = tags + ["tsan"])

def cc_test(**arguments):
    """The native rule's arguments."""
    native.cc_test(**_with_tsan(_with_header(arguments)))

"""ir_tests: tests of passes that are written in IR text (ir_test.h)."""

def ir_tests(name, srcs):
    """One test that runs every .ir file of `srcs`.

    Args:
      name: the test's name.
      srcs: .ir files of this package.
    """
    native.sh_test(
        name = name,
        size = "small",
        srcs = ["//tests/support:ir_test_binary"],
        args = ["$(location %s)" % src for src in srcs],
        data = srcs,
    )

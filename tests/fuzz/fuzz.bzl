"""kiln_fuzz_target: a reader of bytes from elsewhere, fuzzed and replayed."""

load("//deploy/bazel:cc.bzl", "cc_binary", "cc_library", "cc_test")

def kiln_fuzz_target(name, deps, data = []):
    """NAME_target.cc as NAME_fuzzer (libFuzzer, with --config=fuzz) and NAME_replay_test.

    Args:
      name: "resp" for resp_target.cc.
      deps: what the target reads with.
      data: files that its seeds come from.
    """
    findings = native.glob(["findings/" + name + "/*"], allow_empty = True)
    cc_library(
        name = name + "_target",
        testonly = True,
        srcs = [name + "_target.cc"],
        data = data,
        alwayslink = True,
        deps = deps + [":fuzz_target"],
    )
    cc_test(
        name = name + "_replay_test",
        size = "small",
        srcs = ["replay_main.cc"],
        args = ["$(rootpath %s)" % finding for finding in findings],
        data = findings,
        deps = [":" + name + "_target"],
    )
    cc_binary(
        name = name + "_fuzzer",
        testonly = True,
        srcs = ["fuzzer_init.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name + "_target"],
    )

"""kiln_proto_library: a .proto compiled by the system's protoc into a cc_library."""

def kiln_proto_library(name, src, deps = [], grpc = False, visibility = None):
    """A cc_library of the messages in `src`, and of its services when `grpc`.

    Args:
      name: the target's name.
      src: one .proto file of this package.
      deps: kiln_proto_library targets of the files that `src` imports.
      grpc: also generate the gRPC stubs.
      visibility: as in any rule.
    """
    stem = src[:-len(".proto")]
    outs = [stem + ".pb.h", stem + ".pb.cc"]
    plugin = ""
    if grpc:
        outs += [stem + ".grpc.pb.h", stem + ".grpc.pb.cc"]
        plugin = " --grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin"
    native.filegroup(
        name = name + "_src",
        srcs = [src] + [d + "_src" for d in deps],
        visibility = ["//visibility:public"],
    )
    native.genrule(
        name = name + "_gen",
        srcs = [":" + name + "_src"],
        outs = outs,
        cmd = "/usr/bin/protoc -I. --cpp_out=$(GENDIR)%s %s/%s" % (
            plugin,
            native.package_name(),
            src,
        ),
    )
    native.cc_library(
        name = name,
        srcs = [o for o in outs if o.endswith(".cc")],
        hdrs = [o for o in outs if o.endswith(".h")],
        # What it is made of, for source_digest.
        textual_hdrs = [src],
        # Generated code is not ours to keep free of warnings.
        copts = ["-w"],
        visibility = visibility,
        deps = deps + ["//deploy/bazel/system:grpc" if grpc else "//deploy/bazel/system:protobuf"],
    )

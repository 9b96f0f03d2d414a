"""precompiled_header: a header that GCC has read once for all."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompile(ctx, toolchain, header, out, pic):
    """One action that writes `out`, with the flags that every file is compiled with."""
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts,
        source_file = header.path,
        output_file = out.path,
        use_pic = pic,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
        ),
        arguments = ["-x", "c++-header"] + cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
            variables = variables,
        ),
        inputs = depset([header], transitive = [toolchain.all_files]),
        outputs = [out],
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling " + header.short_path,
    )

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.expand_template(template = ctx.file.src, output = header, substitutions = {})
    files = [header]

    # GCC looks into the folder NAME.h.gch for a file that its flags fit, and reads NAME.h when none does.
    if toolchain.compiler != "clang":
        for kind in ["pic", "plain"]:
            out = ctx.actions.declare_file("%s.h.gch/%s" % (ctx.label.name, kind))
            _precompile(ctx, toolchain, header, out, kind == "pic")
            files.append(out)
    context = cc_common.create_compilation_context(headers = depset(files))
    return [DefaultInfo(files = depset(files)), CcInfo(compilation_context = context)]

precompiled_header = rule(
    doc = "NAME.h, the same as `src`, and what GCC made of it, for targets that depend on this and include it first.",
    implementation = _precompiled_header_impl,
    attrs = {
        "src": attr.label(allow_single_file = True, mandatory = True),
        "copts": attr.string_list(doc = "what those targets have in their copts: GCC takes no other's"),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

"""source_digest: a header with the SHA-256 of all source files that some libraries are made of."""

_FILES = ["srcs", "hdrs", "textual_hdrs"]

_Sources = provider(fields = ["files"])

def _collect_impl(target, ctx):
    own = []
    beneath = []
    for name in _FILES:
        own += [file for file in getattr(ctx.rule.files, name, []) if file.is_source]
    for name in _FILES + ["deps"]:
        among = getattr(ctx.rule.attr, name, [])
        if type(among) == "list":
            beneath += [d[_Sources].files for d in among if type(d) == "Target" and _Sources in d]
    return [_Sources(files = depset(own, transitive = beneath))]

_collect = aspect(implementation = _collect_impl, attr_aspects = _FILES + ["deps"])

def _source_digest_impl(ctx):
    files = depset(transitive = [d[_Sources].files for d in ctx.attr.deps]).to_list()
    names = sorted([file.path for file in files])
    listing = ctx.actions.declare_file(ctx.label.name + ".list")
    ctx.actions.write(listing, "\n".join(names) + "\n")
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.run_shell(
        inputs = files + [listing],
        outputs = [header],
        # What sha256sum prints of each file has its name: a renamed file is another source.
        command = "digest=$(xargs sha256sum < {list} | sha256sum | cut -c1-64) && ".format(list = listing.path) +
                  "echo \"inline constexpr char {name}[] = \\\"$digest\\\";\" > {out}".format(
                      name = ctx.attr.constant,
                      out = header.path,
                  ),
    )
    return [
        DefaultInfo(files = depset([header])),
        CcInfo(compilation_context = cc_common.create_compilation_context(headers = depset([header]))),
    ]

source_digest = rule(
    implementation = _source_digest_impl,
    attrs = {
        "constant": attr.string(mandatory = True, doc = "What the header calls it: 64 hexadecimal digits."),
        "deps": attr.label_list(aspects = [_collect], doc = "The libraries; what they depend on counts too."),
    },
)

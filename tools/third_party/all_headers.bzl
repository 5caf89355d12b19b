"""One source file that includes every header of a set of libraries."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _all_headers_impl(ctx):
    headers = depset(transitive = [
        dep[CcInfo].compilation_context.headers
        for dep in ctx.attr.deps
    ]).to_list()
    paths = sorted([
        h.short_path
        for h in headers
        if h.path.endswith(".h") and not h.short_path.startswith("../")
    ])
    out = ctx.actions.declare_file(ctx.label.name + ".cc")
    ctx.actions.write(out, "".join(["#include \"%s\"\n" % path for path in paths]))
    return [DefaultInfo(files = depset([out]))]

# Two types of one name in one namespace, in headers that no other file includes together, would
# break the one-definition rule unnoticed. Here they do not compile.
all_headers = rule(
    implementation = _all_headers_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

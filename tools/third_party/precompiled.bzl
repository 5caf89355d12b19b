"""Headers of third-party libraries, compiled once for all the files that begin with them."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

# What generated code includes.
PROTOBUF_HEADERS = [
    "google/protobuf/extension_set.h",
    "google/protobuf/generated_enum_reflection.h",
    "google/protobuf/generated_message_reflection.h",
    "google/protobuf/generated_message_util.h",
    "google/protobuf/message.h",
    "google/protobuf/repeated_field.h",
    "google/protobuf/unknown_field_set.h",
]

def _compile(ctx, toolchain, source, output, options):
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )

    # Files of libraries are position-independent, but for those that optimized binaries link.
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = source.path,
        output_file = output.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + options +
                             ["-x", "c++-header"],
        use_pic = ctx.var["COMPILATION_MODE"] != "opt",
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = "c++-compile",
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        inputs = depset([source], transitive = [toolchain.all_files]),
        outputs = [output],
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling %s" % ctx.attr.header,
    )

def _includes(headers):
    return ["#include <%s>" % name for name in headers]

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)

    # The compiler looks for precompiled forms beside a header, so one of this name stands there.
    folder = ctx.label.name
    header = ctx.actions.declare_file("%s/%s" % (folder, ctx.attr.header))
    ctx.actions.write(header, "#include_next <%s>\n" % ctx.attr.header)
    source = ctx.actions.declare_file("%s.h" % folder)
    lines = _includes([ctx.attr.header] + ctx.attr.others)
    for macro, headers in ctx.attr.others_if_defined.items():
        # Having looked at the macro, the other forms do not suit files that define it.
        lines += ["#ifdef " + macro] + _includes(headers) + ["#endif"]
    ctx.actions.write(source, "".join([line + "\n" for line in lines]))
    forms = []
    # clang 14 takes gcc's form for its own and fails (llvm-project#69204).
    uses_gcc = toolchain.compiler != "clang"
    for variant, options in ctx.attr.forms.items() if uses_gcc else []:
        form = ctx.actions.declare_file("%s/%s.gch/%s" % (folder, ctx.attr.header, variant))
        _compile(ctx, toolchain, source, form, options)
        forms.append(form)
    return [CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset([header] + forms),
        system_includes = depset([source.dirname + "/" + folder]),
    ))]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "header": attr.string(
            mandatory = True,
            doc = "As it is included. Files that begin with it (-include) and whose target " +
                  "depends on this one read the precompiled form.",
        ),
        "others": attr.string_list(
            doc = "Further headers that most such files include; in the precompiled form alone.",
        ),
        "others_if_defined": attr.string_list_dict(
            doc = "Likewise, by the macro that targets define whose files mostly include them.",
        ),
        "forms": attr.string_list_dict(
            doc = "Options by the name of a form. The compiler takes the first whose options and " +
                  "macros agree with a file's own, and the header's text where none does.",
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

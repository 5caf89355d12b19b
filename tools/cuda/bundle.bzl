"""One archive of tests and benchmarks for a GPU machine that has neither Bazel nor this checkout."""

def _executable(target):
    return target[DefaultInfo].files_to_run.executable

def _script(target):
    return target[DefaultInfo].files.to_list()[0]

def _run_lines(ctx):
    """Of each of `runs`: what kind of thing it starts, its path and the arguments."""
    known = {str(b.label): ("benchmark", _executable(b)) for b in ctx.attr.benchmarks}
    known.update([(str(c.label), ("comparison", _script(c))) for c in ctx.attr.comparisons])
    lines = []
    for run in ctx.attr.runs:
        label, _, arguments = run.partition(" ")
        kind, file = known[str(ctx.label.relative(label))]
        lines.append("%s\t%s\t%s\n" % (kind, file.short_path, arguments))
    return lines

def _gpu_bundle_impl(ctx):
    programs = ctx.attr.tests + ctx.attr.benchmarks + ctx.attr.programs
    all_files = depset(
        [_executable(p) for p in programs],
        transitive = [p[DefaultInfo].default_runfiles.files for p in programs] +
                     [c[DefaultInfo].files for c in ctx.attr.comparisons],
    )
    left_out = tuple([folder + "/" for folder in ctx.attr.left_out])
    runfiles = depset([
        file
        for file in all_files.to_list()
        if not any([file.short_path.startswith(folder) for folder in left_out])
    ])

    # What goes where: "path in the bundle<TAB>file".
    manifest = ctx.actions.declare_file(ctx.label.name + ".manifest")
    files = ctx.actions.args()
    files.set_param_file_format("multiline")
    files.add_all(runfiles, map_each = _manifest_line)
    ctx.actions.write(manifest, files)

    lists = ctx.actions.declare_file(ctx.label.name + ".programs")
    ctx.actions.write(lists, "".join(
        ["test\t%s\t\n" % _executable(t).short_path for t in ctx.attr.tests] +
        _run_lines(ctx) +
        ["program\t%s\t\n" % _executable(p).short_path for p in ctx.attr.programs] +
        ["gpu_info\t%s\t\n" % ctx.executable.gpu_info.short_path],
    ))

    archive = ctx.actions.declare_file(ctx.label.name + ".tar.xz")
    inputs = [manifest, lists, ctx.info_file, ctx.file._run, ctx.file._start, ctx.file._account, ctx.file._readme]
    ctx.actions.run(
        executable = ctx.executable._pack,
        arguments = [archive.path, ctx.workspace_name] + [file.path for file in inputs] +
                    [ctx.executable.gpu_info.path, ctx.executable.gpu_info.short_path],
        inputs = depset(inputs + [ctx.executable.gpu_info], transitive = [runfiles]),
        outputs = [archive],
        mnemonic = "GpuBundle",
        progress_message = "Packing %s" % archive.short_path,
    )
    return [DefaultInfo(files = depset([archive]), runfiles = ctx.runfiles(files = [archive]))]

def _manifest_line(file):
    return "%s\t%s" % (file.short_path, file.path)

gpu_bundle = rule(
    implementation = _gpu_bundle_impl,
    doc = "NAME.tar.xz: unpack it anywhere and call gpu_bundle/run. It says of which commit it is, and so " +
          "is packed anew with each.",
    attrs = {
        "tests": attr.label_list(doc = "googletest programs, which are run first, in this order"),
        "benchmarks": attr.label_list(doc = "programs"),
        "programs": attr.label_list(doc = "that comparisons, or users, start"),
        "comparisons": attr.label_list(
            allow_files = True,
            doc = "Python scripts, each with the files that it needs behind it; run where " +
                  "`SCRIPT --check` ends well, and else skipped with what that says",
        ),
        "runs": attr.string_list(
            doc = "benchmarks and comparisons in the order to run them: \"LABEL ARGUMENTS\", in which " +
                  "{results} is the folder for files, {scratch} one that is removed at the end, " +
                  "{seconds} how long it may take, {start} the bundle's script that starts programs " +
                  "and {baseline} the folder of an earlier run: without one, who reads it is skipped",
        ),
        "left_out": attr.string_list(
            doc = "folders of data that programs could use, but no run here does",
        ),
        "gpu_info": attr.label(
            default = "//tools/cuda:gpu_info",
            executable = True,
            cfg = "target",
        ),
        "_account": attr.label(default = "//tools/cuda:account.sh", allow_single_file = True),
        "_pack": attr.label(default = "//tools/cuda:pack", executable = True, cfg = "host"),
        "_run": attr.label(default = "//tools/cuda:run.sh", allow_single_file = True),
        "_readme": attr.label(default = "//tools/cuda:README.md", allow_single_file = True),
        "_start": attr.label(default = "//tools/cuda:start.sh", allow_single_file = True),
    },
)

"""One archive of tests and benchmarks for a GPU machine that has neither Bazel nor this checkout."""

def _executable(target):
    return target[DefaultInfo].files_to_run.executable

def _gpu_bundle_impl(ctx):
    programs = ctx.attr.tests + ctx.attr.benchmarks.keys() + ctx.attr.programs
    scripts = [(s[DefaultInfo].files.to_list()[0], runs) for s, runs in ctx.attr.comparisons.items()]
    runfiles = depset(
        [_executable(p) for p in programs] + [file for file, _ in scripts],
        transitive = [p[DefaultInfo].default_runfiles.files for p in programs],
    )

    # What goes where: "path in the bundle<TAB>file".
    manifest = ctx.actions.declare_file(ctx.label.name + ".manifest")
    files = ctx.actions.args()
    files.set_param_file_format("multiline")
    files.add_all(runfiles, map_each = _manifest_line)
    ctx.actions.write(manifest, files)

    lists = ctx.actions.declare_file(ctx.label.name + ".programs")
    ctx.actions.write(lists, "".join(
        ["test\t%s\t\n" % _executable(t).short_path for t in ctx.attr.tests] +
        [
            "benchmark\t%s\t%s\n" % (_executable(b).short_path, arguments)
            for b, runs in ctx.attr.benchmarks.items()
            for arguments in runs.split("\n")
        ] +
        ["program\t%s\t\n" % _executable(p).short_path for p in ctx.attr.programs] +
        [
            "comparison\t%s\t%s\n" % (file.short_path, arguments)
            for file, runs in scripts
            for arguments in runs.split("\n")
        ] +
        ["gpu_info\t%s\t\n" % ctx.executable.gpu_info.short_path],
    ))

    archive = ctx.actions.declare_file(ctx.label.name + ".tar.xz")
    ctx.actions.run(
        executable = ctx.executable._pack,
        arguments = [archive.path, ctx.workspace_name, manifest.path, lists.path, ctx.file._run.path, ctx.file._start.path, ctx.executable.gpu_info.path, ctx.executable.gpu_info.short_path],
        inputs = depset([manifest, lists, ctx.file._run, ctx.file._start, ctx.executable.gpu_info], transitive = [runfiles]),
        outputs = [archive],
        mnemonic = "GpuBundle",
        progress_message = "Packing %s" % archive.short_path,
    )
    return [DefaultInfo(files = depset([archive]), runfiles = ctx.runfiles(files = [archive]))]

def _manifest_line(file):
    return "%s\t%s" % (file.short_path, file.path)

gpu_bundle = rule(
    implementation = _gpu_bundle_impl,
    doc = "NAME.tar.xz: unpack it anywhere and call gpu_bundle/run.",
    attrs = {
        "tests": attr.label_list(doc = "googletest programs"),
        "benchmarks": attr.label_keyed_string_dict(
            doc = "programs in the order to run them, and their arguments, a line for each time, in which " +
                  "{results} is the folder for files and {baseline} that of an earlier run: without one, " +
                  "who reads it is skipped",
        ),
        "programs": attr.label_list(doc = "that comparisons, or users, start"),
        "comparisons": attr.label_keyed_string_dict(
            allow_files = True,
            doc = "Python scripts, run after the benchmarks where `SCRIPT --check` says nothing, and " +
                  "their arguments, likewise, in which {start} is the bundle's script that starts programs",
        ),
        "gpu_info": attr.label(
            default = "//tools/cuda:gpu_info",
            executable = True,
            cfg = "target",
        ),
        "_pack": attr.label(default = "//tools/cuda:pack", executable = True, cfg = "host"),
        "_run": attr.label(default = "//tools/cuda:run.sh", allow_single_file = True),
        "_start": attr.label(default = "//tools/cuda:start.sh", allow_single_file = True),
    },
)

"""Rules for code that needs the CUDA toolkit: left out where there is none.

cuda_cc_library, cuda_library and cuda_test are cc_library, cc_library with .cu sources, and cc_test
with the tag `gpu`. if_cuda chooses between a target that needs CUDA and its stub.
"""

load("@cuda//:toolkit.bzl", "CUDA_TOOLKIT")
load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

# A target attribute: compatible with machines that have the toolkit.
REQUIRES_CUDA = [] if CUDA_TOOLKIT else ["//tools/third_party/cuda:no_cuda_toolkit_here"]

# Code for 8.0 (A100) and 9.0 (H100, H200), and PTX that newer devices compile when they load it.
_ARCHITECTURES = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=sm_90",
    "-gencode=arch=compute_90,code=compute_90",
]

_NVCC_OPTIONS = [
    "-std=c++17",
    "-O3",
    "-lineinfo",  # so that compute-sanitizer and profilers name source lines
    "-Xptxas=-v",  # what kernels take of a multiprocessor, see _KEEP_OUTPUT
    "-Werror=all-warnings",
    "-Xcompiler=-fPIC,-Wall,-ffp-contract=off",
]

# Runs the arguments but the first, a file for what they print, which is shown if they fail.
_KEEP_OUTPUT = 'log="$1"; shift; "$@" 2> "$log" || { cat "$log" >&2; exit 1; }'

def if_cuda(with_cuda, without_cuda = []):
    return with_cuda if CUDA_TOOLKIT else without_cuda

def _is_device_source(name):
    return name.endswith(".cu") or name.endswith(".cu.cc")

def _include_options(context):
    options = []
    for path in context.quote_includes.to_list() + context.includes.to_list():
        options += ["-I", path]
    for path in context.system_includes.to_list():
        options += ["-isystem", path]
    return options

def _cuda_objects_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    objects = []
    resources = []
    for source in ctx.files.srcs:
        if not _is_device_source(source.basename):
            continue
        object = ctx.actions.declare_file("_nvcc/%s/%s.o" % (ctx.label.name, source.basename))
        resource_log = ctx.actions.declare_file("_nvcc/%s/%s.resources" % (ctx.label.name, source.basename))
        ctx.actions.run_shell(
            command = _KEEP_OUTPUT,
            arguments = [resource_log.path, CUDA_TOOLKIT + "/bin/nvcc"] + _ARCHITECTURES + _NVCC_OPTIONS + ctx.attr.nvccopts + ["-I", "."] +
                        _include_options(context) + ["-x", "cu", "-c", source.path, "-o", object.path],
            inputs = depset(ctx.files.srcs + ctx.files.hdrs, transitive = [c.headers for c in contexts]),
            outputs = [object, resource_log],
            # nvcc looks for its host compiler there.
            env = {"PATH": "/usr/local/bin:/usr/bin:/bin"},
            mnemonic = "NvccCompile",
            progress_message = "Compiling %s" % source.short_path,
        )
        objects.append(object)
        resources.append(resource_log)
    archive = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    ctx.actions.run(
        executable = "/usr/bin/ar",
        arguments = ["rcsD", archive.path] + [o.path for o in objects],
        inputs = objects,
        outputs = [archive],
        mnemonic = "NvccArchive",
    )
    return [
        DefaultInfo(files = depset([archive])),
        OutputGroupInfo(kernel_resources = depset(resources)),
    ]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu", ".cu.cc", ".cuh", ".h"]),
        "hdrs": attr.label_list(allow_files = [".cuh", ".h"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "nvccopts": attr.string_list(),
    },
)

def cuda_cc_library(name, deps = [], **kwargs):
    """A cc_library of host code that includes CUDA's headers."""
    cc_library(
        name = name,
        target_compatible_with = REQUIRES_CUDA,
        deps = deps + ["@cuda//:headers"],
        **kwargs
    )

def cuda_library(name, srcs, hdrs = [], deps = [], nvccopts = [], copts = [], visibility = None):
    """A cc_library whose .cu sources nvcc compiles; other sources are host code.

    What each kernel takes of a multiprocessor (ptxas -v) is in the files of <name>_kernel_resources.

    Args:
      name: the library's name.
      srcs: .cu, .cc and private headers.
      hdrs: public headers.
      deps: cc_library targets; also seen by nvcc.
      nvccopts: more options for nvcc, e.g. --ptxas-options=-v.
      copts: more options for the .cc sources.
      visibility: who may depend on it.
    """
    private_headers = [s for s in srcs if s.endswith(".h") or s.endswith(".cuh")]
    if CUDA_TOOLKIT:
        _cuda_objects(
            name = name + "_device_code",
            srcs = [s for s in srcs if _is_device_source(s)] + private_headers,
            hdrs = hdrs,
            nvccopts = nvccopts,
            deps = deps + ["@cuda//:headers"],
        )
        native.filegroup(
            name = name + "_kernel_resources",
            srcs = [":" + name + "_device_code"],
            output_group = "kernel_resources",
        )
    cc_library(
        name = name,
        srcs = [s for s in srcs if not _is_device_source(s)] + if_cuda([":" + name + "_device_code"]),
        hdrs = hdrs,
        copts = copts,
        linkstatic = True,
        target_compatible_with = REQUIRES_CUDA,
        visibility = visibility,
        deps = deps + ["@cuda//:cudart"],
    )

def kernel_library(name, srcs, hdrs = [], deps = [], nvccopts = [], visibility = None):
    """A library of kernels that also run on the CPU, with and without a toolkit.

    Its .cu.cc sources are compiled by nvcc, for GPUs and for the CPU, where there is a toolkit, and
    by the host's compiler where there is none.

    Args:
      name: the library's name.
      srcs: .cu.cc and private headers.
      hdrs: public headers.
      deps: cc_library targets; also seen by nvcc.
      nvccopts: more options for nvcc.
      visibility: who may depend on it.
    """
    if CUDA_TOOLKIT:
        cuda_library(
            name = name,
            srcs = srcs,
            hdrs = hdrs,
            nvccopts = nvccopts,
            visibility = visibility,
            deps = deps,
        )
    else:
        cc_library(
            name = name,
            srcs = srcs,
            hdrs = hdrs,
            visibility = visibility,
            deps = deps,
        )

def cuda_test(name, tags = [], deps = [], **kwargs):
    """A cc_test that needs a GPU to say anything; without one it must skip itself with a reason."""
    cc_test(
        name = name,
        tags = tags + ["gpu"],
        target_compatible_with = REQUIRES_CUDA,
        deps = deps,
        **kwargs
    )

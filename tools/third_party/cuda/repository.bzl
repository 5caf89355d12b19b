"""The repository @cuda: what this machine has of the CUDA toolkit, or the news that it has none.

The toolkit is taken from the environment variable CUDA_PATH (`none`: build as on a machine without
a toolkit), else from the `nvcc` on PATH, else from /usr/local/cuda. A CUDA_PATH that has no toolkit
is an error; finding none elsewhere is not: targets that need one are then left out.

Only headers, nvcc and the static runtime are used at build time; cuDNN's and NCCL's headers may also
lie where the compiler looks by itself, as their packages put them. cuBLASLt, cuDNN, NCCL, NVML and
the driver are opened at run time (//core/cuda), so one binary runs on machines without them.
"""

_HEADERS = ["cuda.h", "cuda_runtime.h", "cublasLt.h"]
_PACKAGED_HEADERS = ["cudnn.h", "nccl.h"]
_SYSTEM_INCLUDES = [
    "/usr/local/include",
    "/usr/include",
    "/usr/include/x86_64-linux-gnu",
    "/usr/include/aarch64-linux-gnu",
]

def _toolkit_at(repository_ctx, path):
    """The toolkit's folder if `path` is one with all headers, else a sentence that says why not."""
    root = repository_ctx.path(path)
    if not root.get_child("bin").get_child("nvcc").exists:
        return None, "%s has no bin/nvcc" % path
    for header in _HEADERS:
        if not root.get_child("include").get_child(header).exists:
            return None, "%s has no include/%s" % (path, header)
    for header in _PACKAGED_HEADERS:
        folders = [root.get_child("include")] + [repository_ctx.path(f) for f in _SYSTEM_INCLUDES]
        if not [folder for folder in folders if folder.get_child(header).exists]:
            return None, "%s is neither in %s/include nor in %s" % (
                header,
                path,
                ", ".join(_SYSTEM_INCLUDES),
            )
    return root, None

def _find_toolkit(repository_ctx):
    asked = repository_ctx.os.environ.get("CUDA_PATH", "")
    if asked == "none":
        return None, "CUDA_PATH is none"
    if asked:
        root, why_not = _toolkit_at(repository_ctx, asked)
        if not root:
            fail("CUDA_PATH is %s, but %s; `CUDA_PATH=none` builds without CUDA" % (asked, why_not))
        return root, None
    reasons = []
    nvcc = repository_ctx.which("nvcc")
    places = [str(nvcc.realpath.dirname.dirname)] if nvcc else []
    for place in places + ["/usr/local/cuda"]:
        root, why_not = _toolkit_at(repository_ctx, place)
        if root:
            return root, None
        reasons.append(why_not)
    return None, "; ".join(reasons)

def _cuda_repository_impl(repository_ctx):
    root, why_not = _find_toolkit(repository_ctx)
    if root:
        repository_ctx.symlink(root.get_child("include"), "include")
        lib = root.get_child("lib64")
        if not lib.exists:
            lib = root.get_child("lib")
        repository_ctx.symlink(lib.get_child("libcudart_static.a"), "libcudart_static.a")
    repository_ctx.symlink(
        repository_ctx.attr.present_build_file if root else repository_ctx.attr.absent_build_file,
        "BUILD",
    )
    repository_ctx.file("toolkit.bzl", "\n".join([
        '"""Written by //tools/third_party/cuda:repository.bzl."""',
        "CUDA_TOOLKIT = %r  # the folder; empty: none" % (str(root) if root else ""),
        "CUDA_WHY_NOT = %r" % (why_not or ""),
        "",
    ]))

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    attrs = {
        "present_build_file": attr.label(allow_single_file = True, mandatory = True),
        "absent_build_file": attr.label(allow_single_file = True, mandatory = True),
    },
    environ = ["CUDA_PATH", "PATH"],
    local = True,
)

def cuda_toolkit():
    cuda_repository(
        name = "cuda",
        present_build_file = "//tools/third_party/cuda:present.BUILD",
        absent_build_file = "//tools/third_party/cuda:absent.BUILD",
    )

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
]

# The oldest that have all that is called: CUDA 12.9 does not compile, and cuDNN plans for GPUs that are
# not there (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION) from 9.8 on.
_OLDEST_CUDA = 13000
_OLDEST_CUDNN = (9, 8)

def _defined(repository_ctx, header, name):
    """The number that a header defines `name` to be; 0 where it does not."""
    if not header.exists:
        return 0
    for line in repository_ctx.read(header).splitlines():
        words = [word for word in line.split(" ") if word]
        if words[:2] == ["#define", name] and len(words) > 2 and words[2].isdigit():
            return int(words[2])
    return 0

def _toolkit_at(repository_ctx, path):
    """The toolkit's folder if `path` is one with all headers, else a sentence that says why not."""
    root = repository_ctx.path(path)
    if not root.get_child("bin").get_child("nvcc").exists:
        return None, "%s has no bin/nvcc" % path
    for header in _HEADERS:
        if not root.get_child("include").get_child(header).exists:
            return None, "%s has no include/%s" % (path, header)
    version = _defined(repository_ctx, root.get_child("include").get_child("cuda.h"), "CUDA_VERSION")
    if version < _OLDEST_CUDA:
        return None, "%s is CUDA %d.%d, and %d.%d or newer is needed" % (
            path,
            version // 1000,
            version % 1000 // 10,
            _OLDEST_CUDA // 1000,
            _OLDEST_CUDA % 1000 // 10,
        )
    folder_of = {}
    for header in _PACKAGED_HEADERS:
        folders = [root.get_child("include")] + [repository_ctx.path(f) for f in _SYSTEM_INCLUDES]
        found = [folder for folder in folders if folder.get_child(header).exists]
        if not found:
            return None, "%s is neither in %s/include nor in %s" % (
                header,
                path,
                ", ".join(_SYSTEM_INCLUDES),
            )
        folder_of[header] = found[0]
    cudnn = folder_of["cudnn.h"].get_child("cudnn_version.h")
    version = tuple([_defined(repository_ctx, cudnn, "CUDNN_" + part) for part in ["MAJOR", "MINOR"]])
    if version < _OLDEST_CUDNN:
        return None, "%s is cuDNN %d.%d, and %d.%d or newer is needed" % (
            (folder_of["cudnn.h"],) + version + _OLDEST_CUDNN
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
        "",
    ]))
    if why_not:
        repository_ctx.file("cuda_toolkit/why_not.h", "\n".join([
            "// Written by //tools/third_party/cuda:repository.bzl: why there is no toolkit.",
            "inline constexpr char kWhyNoCudaToolkit[] = %r;" % why_not,
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

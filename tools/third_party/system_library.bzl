"""External repositories for libraries that the operating system's packages provide."""

_SYSTEM_LIBRARIES = [
    "absl",
    "benchmark",
    "cbc",
    "dnnl",
    "gflags",
    "gloo",
    "gtest",
    "image_codecs",
    "nlohmann_json",
    "openmp",
    "protobuf",
]

def _system_library_impl(repository_ctx):
    # The compiler finds /usr/include by itself; the repository only says what to link.
    repository_ctx.symlink(repository_ctx.attr.build_file, "BUILD")

_system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {"build_file": attr.label(allow_single_file = True, mandatory = True)},
    local = True,
)

def system_libraries():
    for name in _SYSTEM_LIBRARIES:
        _system_library(
            name = name,
            build_file = "//tools/third_party:%s.BUILD" % name,
        )

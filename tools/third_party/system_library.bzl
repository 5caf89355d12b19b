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
    "sodium",
    "protobuf",
    "utf8proc",
]

# What a package is divided into differs from version to version; all that it has is linked, of which
# the linker keeps what a binary uses.
_DIVIDED = {"absl": "absl_*"}

def _names(repository_ctx, pattern):
    """Of the libraries lib<pattern>.so where the linker looks by itself, without the lib and .so."""
    folders = ["/usr/lib", "/usr/lib64", "/usr/local/lib"]
    found = repository_ctx.execute(
        ["find"] + folders + ["-maxdepth", "2", "-name", "lib%s.so" % pattern],
    ).stdout.splitlines()
    names = {path.split("/")[-1][len("lib"):-len(".so")]: None for path in found}
    if not names:
        fail("there is no lib%s.so in %s; ./bazelw installs what is missing" %
             (pattern, ", ".join(folders)))
    return sorted(names.keys())

def _system_library_impl(repository_ctx):
    # The compiler finds /usr/include by itself; the repository only says what to link.
    repository_ctx.symlink(repository_ctx.attr.build_file, "BUILD")
    if repository_ctx.attr.pattern:
        repository_ctx.file("libraries.bzl", "\n".join([
            '"""Written by //tools/third_party:system_library.bzl."""',
            "LIBRARIES = %r" % _names(repository_ctx, repository_ctx.attr.pattern),
            "",
        ]))

_system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "build_file": attr.label(allow_single_file = True, mandatory = True),
        "pattern": attr.string(doc = "of libraries that libraries.bzl is to name"),
    },
    local = True,
)

def system_libraries():
    for name in _SYSTEM_LIBRARIES:
        _system_library(
            name = name,
            build_file = "//tools/third_party:%s.BUILD" % name,
            pattern = _DIVIDED.get(name, ""),
        )

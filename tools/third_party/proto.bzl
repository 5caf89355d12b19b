"""C++ code from .proto files, by the system's protoc."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def dpipe_proto_library(name, src, deps = [], visibility = None):
    """A cc_library for one .proto file.

    Args:
      name: the library's name.
      src: the .proto file, of this package.
      deps: other dpipe_proto_library targets that it imports.
      visibility: who may depend on it.
    """
    base = src[:-len(".proto")]
    native.filegroup(
        name = name + "_src",
        srcs = [src] + [dep + "_src" for dep in deps],
        visibility = visibility,
    )
    native.genrule(
        name = name + "_gen",
        srcs = [":" + name + "_src"],
        outs = [base + ".pb.h", base + ".pb.cc"],
        cmd = "protoc -I. --cpp_out=$(GENDIR) %s/%s" % (native.package_name(), src),
    )
    cc_library(
        name = name,
        srcs = [base + ".pb.cc"],
        hdrs = [base + ".pb.h"],
        copts = ["-Wno-error"],
        visibility = visibility,
        deps = deps + ["@protobuf"],
    )

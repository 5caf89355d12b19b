"""The ops of a folder: contracts, checks, implementations and tests."""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

def dpipe_ops(name, deps = [], test_deps = []):
    """All ops of a folder: a library of its headers and sources, and one test of its *_test.cc.

    Args:
      name: of the library.
      deps: what it depends on besides what all ops do.
      test_deps: what its test depends on besides the library.
    """
    cc_library(
        name = name,
        srcs = native.glob(
            ["*.cc", "*_kernels.h"],
            exclude = ["*_test.cc"],
        ),
        hdrs = native.glob(
            ["*.h"],
            exclude = ["*_kernels.h"],
        ),
        # Vectorise, and let comparisons be vectorised: no code of ours reads floating-point
        # exception flags. Neither changes a value.
        copts = ["-O3", "-fno-trapping-math", "-fopenmp"],
        deps = [
            "//core/base:check",
            "//core/base:status",
            "//core/ops/cuda",
            "//core/ops/cuda/kernels",
            "//core/ops/support:kernel_support",
            "//core/tensor",
            "//core/tensor:device_work",
            "@absl",
            "@openmp",
        ] + deps,
    )
    cc_test(
        name = name + "_test",
        size = "small",
        srcs = native.glob(["*_test.cc"]),
        deps = [
            ":" + name,
            "//core/ops/testing:op_testing",
            "//core/tensor",
            "@gtest//:gtest_main",
        ] + test_deps,
    )

"""One op: its contract, its checks, its implementations and its test."""

def dpipe_op(name, srcs = [], deps = [], test_deps = []):
    """Targets `name` and `name`_test from <name>.h, .cc, _kernels.h, _ref.cc, _cpu.cc, _cuda.cc, _test.cc."""
    native.cc_library(
        name = name,
        srcs = [
            name + ".cc",
            name + "_cpu.cc",
            name + "_cuda.cc",
            name + "_kernels.h",
            name + "_ref.cc",
        ] + srcs,
        hdrs = [name + ".h"],
        # Vectorise, and let comparisons be vectorised: no code of ours reads floating-point
        # exception flags. Neither changes a value.
        copts = ["-O3", "-fno-trapping-math", "-fopenmp"],
        deps = [
            "//core/ops/support:kernel_support",
            "//core/base:check",
            "//core/base:status",
            "//core/ops/cuda",
            "//core/tensor",
            "@absl",
            "@openmp",
        ] + deps,
    )
    native.cc_test(
        name = name + "_test",
        size = "small",
        srcs = [name + "_test.cc"],
        deps = [
            ":" + name,
            "//core/ops/testing:op_testing",
            "//core/tensor",
            "@gtest//:gtest_main",
        ] + test_deps,
    )

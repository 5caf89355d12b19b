"""Parity of the CUDA backend with the reference: one test, two places where it runs."""

load("@rules_cc//cc:defs.bzl", "cc_test")

def parity_test(name, deps):
    """Targets NAME_test, which emulates the GPU, and NAME_gpu_test, which skips where there is none.

    Args:
      name: of <name>_test.cc.
      deps: the ops that it compares.
    """
    for device, suffix, tags in [("emulated", "_test", []), ("gpu", "_gpu_test", ["gpu"])]:
        cc_test(
            name = name + suffix,
            size = "medium",
            srcs = [name + "_test.cc"],
            env = {"DPIPE_PARITY_DEVICE": device},
            tags = tags,
            visibility = ["//tools/cuda:__pkg__"],
            deps = deps + [
                ":parity",
                "@gtest//:gtest_main",
            ],
        )

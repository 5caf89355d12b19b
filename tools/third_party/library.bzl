"""A library and its test: of files named after it, or of all files of a folder."""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

def dpipe_library(
        name,
        srcs = None,
        hdrs = None,
        test_srcs = None,
        test_deps = None,
        test_data = [],
        test_size = "small",
        **kwargs):
    """Target `name` of <name>.h and, if there is one, <name>.cc; and its test, `name`_test.

    Args:
      name: of the library and its files.
      srcs: all sources, if there are more than <name>.cc.
      hdrs: all headers, if there are more than <name>.h.
      test_srcs: all sources of the test, if there are more than <name>_test.cc.
      test_deps: what the test depends on besides the library; None if there is no test.
      test_data: files that the test reads.
      test_size: of the test.
      **kwargs: passed to cc_library.
    """
    cc_library(
        name = name,
        srcs = native.glob([name + ".cc"], allow_empty = True) if srcs == None else srcs,
        hdrs = [name + ".h"] if hdrs == None else hdrs,
        **kwargs
    )
    if test_deps != None:
        cc_test(
            name = name + "_test",
            size = test_size,
            srcs = [name + "_test.cc"] if test_srcs == None else test_srcs,
            data = test_data,
            deps = [":" + name, "@gtest//:gtest_main"] + test_deps,
        )

def dpipe_folder(name, srcs = [], hdrs = [], exclude = [], **kwargs):
    """Target `name` of all sources of a folder; and one test of all its *_test.cc, `name`_test.

    Args:
      name: of the library.
      srcs: sources from elsewhere, for example generated ones.
      hdrs: headers from elsewhere.
      exclude: files of other targets, besides micro-benchmarks.
      **kwargs: as of dpipe_library.
    """
    dpipe_library(
        name = name,
        srcs = srcs + native.glob(
            ["*.cc"],
            exclude = ["*_test.cc", "*_benchmark.cc"] + exclude,
            allow_empty = True,
        ),
        hdrs = hdrs + native.glob(["*.h"], exclude = exclude),
        test_srcs = native.glob(["*_test.cc"], exclude = exclude, allow_empty = True),
        **kwargs
    )

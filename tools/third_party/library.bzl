"""A library and its test, of files named after it."""

def dpipe_library(
        name,
        srcs = None,
        test_deps = None,
        test_data = [],
        test_size = "small",
        **kwargs):
    """Target `name` of <name>.h and, if there is one, <name>.cc; and its test, `name`_test.

    Args:
      name: of the library and its files.
      srcs: all sources, if there are more than <name>.cc.
      test_deps: what <name>_test.cc depends on besides the library; None if there is no such test.
      test_data: files that the test reads.
      test_size: of the test.
      **kwargs: passed to cc_library.
    """
    native.cc_library(
        name = name,
        srcs = native.glob([name + ".cc"], allow_empty = True) if srcs == None else srcs,
        hdrs = [name + ".h"],
        **kwargs
    )
    if test_deps != None:
        native.cc_test(
            name = name + "_test",
            size = test_size,
            srcs = [name + "_test.cc"],
            data = test_data,
            deps = [":" + name, "@gtest//:gtest_main"] + test_deps,
        )

"""cc_common, which is built into Bazel 4, under the name of the rules_cc repository."""

load(":built_in.bzl", "built_in_cc_common")

cc_common = built_in_cc_common

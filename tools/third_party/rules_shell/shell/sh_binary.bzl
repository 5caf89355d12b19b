"""The rule that is built into Bazel 4, under the name of the rules_shell repository."""

sh_binary = native.sh_binary

"""The Java rules that are built into Bazel 4, under the names of the rules_java repository."""

java_binary = native.java_binary
java_import = native.java_import
java_library = native.java_library
java_runtime = native.java_runtime
java_toolchain = native.java_toolchain

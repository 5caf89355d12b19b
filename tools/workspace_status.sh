#!/bin/sh
# What Bazel tells rules that ask of which commit the workspace is. A tree without git has none.
revision=$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null) || revision=unknown
echo "STABLE_REVISION $revision"

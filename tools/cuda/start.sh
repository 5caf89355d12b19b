#!/usr/bin/env bash
# Starts a program of this bundle.
#   ./start PATH [ARGUMENTS]
# By the bundle's own loader and C library. CUDA's libraries are looked for among the packages of the
# machine's python3 first, so that they are those that PyTorch has there, or in the folders that
# DPIPE_CUDA_LIBRARIES names instead; then in those of LD_LIBRARY_PATH and where they usually are.
# Relative paths in ARGUMENTS are of this folder.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ $# -eq 0 ]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  cut -f2 "$root/programs" | sort -u | sed 's/^/  /'
  exit 2
fi
workspace=$(cat "$root/workspace")
path=$1
shift

if [ -z "${DPIPE_CUDA_LIBRARIES+set}" ]; then
  DPIPE_CUDA_LIBRARIES=$(python3 -c '
import glob, nvidia
print(":".join(sorted(folder for path in nvidia.__path__ for folder in glob.glob(path + "/*/lib"))))
' 2>/dev/null) || DPIPE_CUDA_LIBRARIES=''
fi
export DPIPE_CUDA_LIBRARIES

export BUILD_WORKSPACE_DIRECTORY=${BUILD_WORKSPACE_DIRECTORY:-$root}
export TEST_SRCDIR=$root/files TEST_WORKSPACE=$workspace RUNFILES_DIR=$root/files
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# What results say of the program: to the system it is the loader that runs, and here is no git.
DPIPE_REVISION=$(cat "$root/revision")
export DPIPE_REVISION DPIPE_PROGRAM_FILE=$root/files/$workspace/$path
libraries=$root/lib
for more in "$DPIPE_CUDA_LIBRARIES" "${LD_LIBRARY_PATH:-}" /usr/local/cuda/lib64 \
  /usr/local/nvidia/lib64; do
  [ -z "$more" ] || libraries+=:$more
done
cd "$root/files/$workspace"
exec "$root/lib/ld-linux-x86-64.so.2" --library-path "$libraries" "$DPIPE_PROGRAM_FILE" "$@"

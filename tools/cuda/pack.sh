#!/usr/bin/env bash
# Packs programs, their data and every shared library they need but CUDA's into one archive.
#   pack ARCHIVE WORKSPACE MANIFEST PROGRAMS STATUS RUN_SCRIPT START_SCRIPT ACCOUNT_SCRIPT README
#        GPU_INFO GPU_INFO_PATH
# MANIFEST: lines "path<TAB>file". STATUS: Bazel's, which has the revision. The C library and its loader come along, too, so that the age of
# the other machine's does not matter.
set -euo pipefail
readonly archive=$1 workspace=$2 manifest=$3 programs=$4 status=$5 run_script=$6 start_script=$7
readonly account_script=$8 readme=$9 gpu_info=${10} gpu_info_path=${11}

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
readonly root=$stage/gpu_bundle files=$stage/gpu_bundle/files/$workspace
mkdir -p "$files" "$root/lib"

add_file() {  # path in the bundle, file
  mkdir -p "$files/$(dirname "$1")"
  cp -L "$2" "$files/$1"
}
while IFS=$'\t' read -r path file; do
  add_file "$path" "$file"
done <"$manifest"
add_file "$gpu_info_path" "$gpu_info"

# What only a debugger reads is half of a program.
is_elf() { [ "$(head -c 4 "$1" | tr -d '\0')" = $'\x7fELF' ]; }
find "$files" -type f -print0 | while IFS= read -r -d '' path; do
  is_elf "$path" || continue
  chmod u+w "$path"
  strip --strip-all "$path"
done

# CUDA's libraries are the GPU machine's own: those of its driver must be.
is_cudas() { [[ $1 =~ ^lib(cuda|cudart|cublas|cublasLt|cudnn|nccl|nvidia|nvrtc|nvJitLink) ]]; }

add_libraries_of() {
  local name path
  while read -r name path; do
    is_cudas "$name" && continue
    [ -e "$root/lib/$name" ] || cp -L "$path" "$root/lib/$name"
  done < <(ldd "$1" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}
                                       $1 ~ /^\/.*ld-linux/ {n = split($1, p, "/"); print p[n], $1}')
}
cut -f2 "$programs" | sort -u | while read -r path; do add_libraries_of "$files/$path"; done

# What CUDA's libraries want of the C library besides: the other machine's need not fit ours.
libc=$(ldd "$(command -v bash)" | awk '$1 == "libc.so.6" {print $3}')
for name in libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1; do
  [ -e "$root/lib/$name" ] || cp -L "$(dirname "$libc")/$name" "$root/lib/$name"
done

cp "$programs" "$root/programs"
printf '%s\n' "$workspace" >"$root/workspace"
revision=$(awk '$1 == "STABLE_REVISION" {print $2}' "$status")
printf '%s\n' "${revision:-unknown}" >"$root/revision"
cp -L "$readme" "$root/README.md"
install -m 755 "$run_script" "$root/run"
install -m 755 "$start_script" "$root/start"
install -m 755 "$account_script" "$root/account"
chmod -R u+w "$stage"
# Programs have most of their code in common, and the window sees all of them: half of gzip's size.
# Calls are the same wherever they stand once their targets are absolute (--x86).
tar -C "$stage" --sort=name --owner=0 --group=0 --mtime=@0 -cf - gpu_bundle |
  xz --x86 --lzma2=preset=2,dict=192MiB >"$archive"

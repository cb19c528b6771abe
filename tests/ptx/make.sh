#!/bin/sh
# Compiles tests/{ptx,presets,findings,sim,textures}/*.cu to .ptx with nvcc 13.0 and appends the directives of
# tests/sim/runner.c that stand in the source's comments. A line `// arch: 90` chooses the target, 75 otherwise.
set -e
cd "$(dirname "$0")"
for source in *.cu ../presets/*.cu ../findings/*.cu ../sim/*.cu ../textures/*.cu; do
    name=${source%.cu}
    arch=$(sed -n 's|^// arch: ||p' "$source")
    "${NVCC:-/usr/local/cuda/bin/nvcc}" -ptx -std=c++17 -arch="compute_${arch:-75}" -lineinfo "$source" -o "$name.tmp"
    # paths of this machine and the names of inlined functions are of no use to anybody else
    sed -e '/^\t\.section\t\.debug_str/,$d' -e 's|^\(\t\.file\t[0-9]* "\).*/targets/.*/include/|\1/targets/include/|' \
        -e "s|^\(\t\.file\t[0-9]* \"\).*/${source##*/}|\1${source##*/}|" "$name.tmp" >"$name.ptx"
    grep -E '^// (gpu|limit|buffer|texture|launch|cooperative|expect|counter|finding|fails):' "$source" >>"$name.ptx" || true
    rm "$name.tmp"
done

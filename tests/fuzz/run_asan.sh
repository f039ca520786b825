#!/bin/sh
# Builds both extensions under ASan and UBSan into a folder of its own and fuzzes with them:
#   tests/fuzz/run_asan.sh --runs 100000 --seed 1
# PYTHON names the interpreter that has specscope's dependencies; default: python3.
set -eu
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
include=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
suffix=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
mkdir -p "$build/specscope" "$build/tests"
cp specscope/__init__.py "$build/specscope/"
cp -R traces "$build/specscope/traces"
cp -R tests/fuzz "$build/tests/fuzz"
rm -f "$build/specscope/traces/"_scan*.so "$build/specscope/traces/"_pages*.so
for name in _scan _pages; do
${CC:-gcc} -g -O1 -std=c11 -fPIC -shared -fno-omit-frame-pointer \
    -fsanitize=address,undefined -fno-sanitize-recover=all \
    -I"$include" "traces/$name.c" -o "$build/specscope/traces/$name$suffix"
done
out=$PWD
cd "$build"
# The interpreter itself is not instrumented: the runtime is loaded first, and what the
# interpreter keeps until its end is no leak of ours.
for fuzz in fuzz_scan fuzz_pages; do
LD_PRELOAD="$(${CC:-gcc} -print-file-name=libasan.so) $(${CC:-gcc} -print-file-name=libubsan.so)" \
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
    PYTHONMALLOC=malloc PYTHONPATH="$build" \
    "$PYTHON" -m "tests.fuzz.$fuzz" --out "$out/fuzz-fault.bin" "$@"
done

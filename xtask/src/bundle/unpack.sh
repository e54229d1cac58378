#!/bin/sh
# Unpacks the bundle, here or into another directory: sh unpack.sh [DIRECTORY]
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here}"
there=$(cd "${1:-$here}" && pwd)
cd "$here"
if [ "$here" != "$there" ]; then
    tar -cf - --exclude='*.xz' . | tar -xf - -C "$there"
fi
THERE=$there
export THERE
# In parallel, with xz or Python.
find . -name '*.xz' | xargs -P 8 -n 1 sh -c '
    file="$THERE/${0%.xz}"
    mkdir -p "$(dirname "$file")"
    if command -v xz >/dev/null; then
        xz -dc "$0" > "$file.part"
    else
        python3 -c "import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)" "$0" > "$file.part"
    fi
    chmod +x "$file.part"
    mv -f "$file.part" "$file"
'
# The Python package (PYTHONPATH=DIRECTORY/python) looks for LLVM next to its module.
if [ -d "$there/python/wuji" ]; then
    ln -sfn ../../lib "$there/python/wuji/lib"
fi

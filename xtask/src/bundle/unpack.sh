#!/bin/sh
# Unpacks the bundle, here or into another folder: sh unpack.sh [FOLDER]
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
# Some at a time. Where there is no xz there may be a Python.
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
# The Python package (PYTHONPATH=FOLDER/python) looks for LLVM beside its module.
if [ -d "$there/python/wuji" ]; then
    ln -sfn ../../lib "$there/python/wuji/lib"
fi

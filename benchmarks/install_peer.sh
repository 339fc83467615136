#!/bin/sh
# Makes the environment of the peer that run.py compares with: TRL 1.16 with the same torch and transformers.
#   GROUPWISE_PEER  where, for run.py too (default: ~/.cache/groupwise/trl-1.16)      PYTHON  the interpreter
set -eu

peer="${GROUPWISE_PEER:-$HOME/.cache/groupwise/trl-1.16}"
[ -x "$peer/bin/python" ] || "${PYTHON:-python3}" -m venv "$peer"
pip="$peer/bin/python -m pip install --quiet --disable-pip-version-check"
# The build for CPUs, from torch's own index or from wherever pip is configured to find one.
"$peer/bin/python" -c 'import torch' 2>/dev/null || $pip --retries 1 --timeout 20 \
    --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0
$pip torch==2.13.0 trl==1.16.0 transformers==5.24.0
"$peer/bin/python" -c 'import trl; print("TRL", trl.__version__, "is in", __import__("sys").prefix)'

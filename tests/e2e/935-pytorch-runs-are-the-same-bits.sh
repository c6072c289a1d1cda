#!/bin/sh
# The PyTorch layer: elastic runs against DDP bit by bit, checkpoints, loaders,
# freezing, fine-tuning. Skipped where the distribution's PyTorch is not there.
. tests/lib/e2e.sh
python=${FIRN_PYTHON:-/usr/bin/python3}
lib=$(cd "${FIRN%/firn}" && pwd)/libfirn_train.so
"$python" -c 'import torch, numpy, torch.distributed' 2>/dev/null ||
    skip "python3-torch is not installed"
[ -f "$lib" ] || skip "libfirn_train.so is not built"
export OMP_NUM_THREADS=1 FIRN_TRAIN_LIB="$lib" PYTHONDONTWRITEBYTECODE=1
unset RANK WORLD_SIZE FIRN_LAYOUT FIRN_THREADS FIRN_DIR FIRN_URL FIRN_FREEZE
PYTHONPATH=python:tests/python
export PYTHONPATH
more= # what takes minutes and a quiet machine
[ -z "${FIRN_SOAK:-}" ] || more="test_costs test_types"
# shellcheck disable=SC2086 # words
TMPDIR=$tmp "$python" tests/python/suite.py ${FIRN_PYTHON_TESTS:-test_wrappers test_elastic test_loader \
    test_freeze test_finetune test_orders test_d2 test_examples test_guards \
    test_transformers test_accelerate test_lightning test_table test_options \
    test_wheel test_parallel test_partners test_sums test_batches test_course \
    test_folding test_bench_train test_join test_join_adapters} $more >"$tmp/out" 2>&1 || {
    cat "$tmp/out"
    fail "tests of the PyTorch layer failed"
}
exit 0

#!/bin/sh
# A gate for CI: fails when the draft takes too much of the cycle, and says when a trace
# cannot answer.
#
#     sh examples/gate.sh TRACES
set -u
analyze "$@" --quiet --check 'draft.share<20%' --check 'idle.share<60%'
case $? in
    0) echo "as it should be" ;;
    1) echo "the draft or idle takes too much of the cycle"; exit 1 ;;
    4) echo "this trace cannot answer; nothing was decided" ;;
    *) echo "nothing was read"; exit 1 ;;
esac

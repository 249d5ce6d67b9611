#!/usr/bin/env bash
# Compiles this crate, and none of its dependencies, as for a system that is not Linux: cargo's wrapper for the crates of a
# workspace, whose results it keeps beside the others.
#
#     RUSTC_WORKSPACE_WRAPPER=tests/portable.sh cargo nextest run --all-features --lib
set -euo pipefail
exec "$@" --cfg redquorum_portable

#!/bin/sh
# with_clang.sh GXX CLANGXX COMMAND...: runs the command with clang++ in place of g++, and without
# what only g++ knows. A compiler launcher of CMake: it lets one build use two compilers.
gxx=$1 clang=$2
shift 2
for argument; do
  shift
  case $argument in
    "$gxx") argument=$clang ;;
    --param=* | -Winvalid-pch) continue ;;
    *.gch) rm -f "$argument" ;;  # a former one would be used to precompile the next
  esac
  set -- "$@" "$argument"
done
exec "$@"

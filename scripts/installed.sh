# Checks which of the packages that scripts/setup installs are there and complete. setup sources
# this file; it uses setup's variables.

has_header() {
  "${compiler[@]}" -E -x c++ - <<<$'#if !__has_include(<'"$1"$'>)\n#error\n#endif' >/dev/null 2>&1
}

# LibFuzzer's library is a package of its own on Debian, and a part of clang's on other systems.
has_fuzzer() {
  [[ -f $(clang++ -print-file-name=libclang_rt.fuzzer.a 2>/dev/null) ||
    -f $(clang++ -print-resource-dir 2>/dev/null)/lib/linux/libclang_rt.fuzzer-$(uname -m).a ]]
}

has_cmake() {
  local version
  version=$(cmake --version 2>/dev/null) || return 1
  [[ $version =~ [0-9]+\.[0-9.]+ ]] && at_least $oldest_cmake "${BASH_REMATCH[0]}"
}

has_formatter() {
  [[ $("$venv/bin/clang-format" --version 2>/dev/null) == *"version $formatter."* ]]
}

has_conan() {
  local version
  version=$(conan --version 2>/dev/null) || return 1
  [[ $version =~ [0-9]+\.[0-9.]+ ]] && at_least $oldest_conan "${BASH_REMATCH[0]}"
}

has_tcmalloc() { compgen -G '/usr/lib/*/libtcmalloc_minimal.so.4' >/dev/null; }

missing_packages() {
  if [[ $target == docs || $target == test ]]; then
    have doxygen || echo doxygen
  fi
  if [[ $target == docs ]]; then
    have dot || echo graphviz
    return
  fi
  have "${compiler[0]}" || echo g++
  has_header boost/hana.hpp || echo libboost-dev
  if [[ $target == bench ]]; then
    have g++ || echo g++
    has_python_headers || echo "$(basename "$(find_python)")-dev"
  fi
  [[ $target == test ]] || return 0
  has_header doctest/doctest.h || echo doctest-dev
  have g++ || echo g++
  have clang++ || echo clang
  have pkg-config || echo pkgconf
  have clang++-16 || have clang++-17 || ! apt-cache show clang-16 >/dev/null 2>&1 || echo clang-16
  has_tcmalloc || ! apt-cache show libtcmalloc-minimal4 >/dev/null 2>&1 || echo libtcmalloc-minimal4
  have ld.lld || echo lld
  has_fuzzer || ! apt-cache show libclang-rt-dev >/dev/null 2>&1 || echo libclang-rt-dev
  have valgrind || echo valgrind
  have gdb || echo gdb
  has_header jpeglib.h || echo libjpeg-dev
  has_header png.h || echo libpng-dev
  has_header zlib.h || echo zlib1g-dev
  has_header pcre2.h || echo libpcre2-dev
  have mpirun || echo openmpi-bin
  have python3 || echo python3
}

users_libtorch() {
  local folder folders=()
  if [[ ${IKEBANA_LIBTORCH:-} ]]; then
    [[ -f $IKEBANA_LIBTORCH/lib/libtorch_cpu.so ]] && return 0
    die "IKEBANA_LIBTORCH is $IKEBANA_LIBTORCH, which holds no lib/libtorch_cpu.so:" \
      "name the folder that holds include/torch and lib/"
  fi
  IFS=: read -ra folders <<<"${CMAKE_PREFIX_PATH:-}"
  for folder in ${Torch_DIR:+"$Torch_DIR/.."} "${folders[@]}"; do
    [[ -f $folder/lib/libtorch_cpu.so || -f $folder/../../lib/libtorch_cpu.so ]] && return 0
  done
  return 1
}

wants_cuda() {
  [[ ${IKEBANA_CUDA:-} ]] && { [[ $IKEBANA_CUDA != 0 ]]; return; }
  [[ -e /proc/driver/nvidia/version || -e /dev/nvidiactl || -e /usr/lib/wsl/lib/libcuda.so.1 ]]
}

# pip writes INSTALLER after a wheel's last file, and RECORD has the size of every file.
is_complete() {
  local site=$1 part infos=()
  for part in "${@:2}"; do
    infos+=("$site/$part"[-.]*dist-info/INSTALLER)
  done
  ((${#infos[@]} == $# - 1)) || return 1
  (cd "$site" && find torch nvidia -type f -printf '%p,%s\n' | awk -F '[,\r]' '
    NR == FNR { size[$1] = $2; next }
    /^(torch|nvidia)\// && $3 != "" && size[$1] != $3 { bad = 1; exit }
    END { exit bad }' - "${infos[@]/%INSTALLER/RECORD}") 2>/dev/null
}

has_libtorch() {
  local site parts=("${cpu_parts[@]}")
  wants_cuda && parts=("${cuda_parts[@]}")
  for site in "$venv"/lib/python3*/site-packages; do
    is_complete "$site" "${parts[@]}" && return 0
  done
  return 1
}

# Those of LibTorch in .venv, which a LibTorch of the user's own has beside itself, or not.
has_headers() {
  local site
  users_libtorch && return 0
  for site in "$venv"/lib/python3*/site-packages; do
    is_complete "$site" "${header_parts[@]}" && return 0
  done
  return 1
}

# pip installs the dependencies of a wheel before the wheel.
has_oracle() {
  local site infos
  for site in "$oracle"/lib/python3*/site-packages; do
    infos=("$site"/*.dist-info)
    infos=("${infos[@]##*/}")
    is_complete "$site" torch-$torch numpy safetensors-0.8 gguf-0.19 scikit_learn-1 \
      tensorboard-2.20 protobuf absl_py pillow-12 torchvision-0.26 tokenizers-0.22 pyarrow-26 \
      "${infos[@]%.dist-info}" && return 0
  done
  return 1
}

# pip installs the dependencies of a wheel before the wheel, and writes INSTALLER last.
has_finetune() {
  local site wheel
  for site in "$finetune"/lib/python3*/site-packages; do
    for wheel in "${transformers_wheels[@]}" "$model_wheel"; do
      [[ -f $site/${wheel/==/-}.dist-info/INSTALLER ]] || return 1
    done
    "$finetune/bin/python" -c 'import numpy, safetensors' 2>/dev/null
    return
  done
  return 1
}

users_oracle() {
  local version
  [[ ${IKEBANA_ORACLE:-} ]] || return 1
  version=$("$IKEBANA_ORACLE" -c 'import gguf, numpy, PIL, pyarrow, safetensors, sklearn, tensorboard
import tokenizers, torch, torchvision
print(torch.__version__)' 2>/dev/null) ||
    die "IKEBANA_ORACLE is $IKEBANA_ORACLE, which cannot import torch, numpy, safetensors, gguf," \
    "sklearn, tensorboard, PIL, torchvision, tokenizers and pyarrow: name a Python that can, or leave it out"
  [[ ${version%%+*} == "$torch" ]] || users_libtorch ||
    die "IKEBANA_ORACLE is $IKEBANA_ORACLE, whose torch is $version; it must be $torch, as LibTorch"
}

# torch.compile compiles against Python's headers.
has_python_headers() {
  local python=${IKEBANA_ORACLE:-$(find_python)}
  local folder='from sysconfig import get_path; print(get_path("include"))'
  [[ -f $("$python" -c "$folder" 2>/dev/null)/Python.h ]]
}

# install_site copies the list when all of it is installed.
has_site() { cmp -s docs/site/requirements.txt "$site/requirements.txt"; }

has_venv() { "$venv/bin/python" -m pip --version >/dev/null 2>&1; }

find_python() {
  local name PATH=${PATH//"$venv/bin:"/}
  for name in python3 python3.{14,13,12,11,10}; do
    "$name" -c "import sys; sys.exit(sys.version_info < (${oldest_python/./,}))" 2>/dev/null &&
      { command -v "$name"; return; }
  done
  have python3 && die "python3 is older than needed: install Python $oldest_python or newer"
  echo python3
}

look() {
  mapfile -t packages < <(missing_packages)
  steps=()
  if [[ $target == docs ]]; then
    has_site || steps+=(site)
  else
    look_for_libtorch
  fi
  if [[ " ${steps[*]} " =~ \ (venv|oracle|finetune|site)\  ]]; then
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
  fi
  if ((${#packages[@]})); then steps=(packages "${steps[@]}"); fi
}

look_for_libtorch() {
  has_cmake || steps+=(cmake)
  [[ $target != test ]] || has_conan || steps+=(conan)
  [[ $target != test ]] || has_formatter || steps+=(formatter)
  users_libtorch || has_libtorch || steps+=(libtorch)
  [[ $target != test ]] || has_headers || steps+=(headers)
  if ((${#steps[@]})) && ! has_venv; then steps=(venv "${steps[@]}"); fi
  [[ $target != finetune ]] || has_finetune || steps+=(finetune)
  # First, since LibTorch of .venv can be linked to it.
  [[ $target == demo ]] || users_oracle || has_oracle || steps=(oracle "${steps[@]}")
}

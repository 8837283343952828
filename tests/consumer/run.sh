#!/usr/bin/env bash
# Builds and runs foreign projects on stepfuse: installed, from the build folder, or as a
# subdirectory.
#   run.sh MODE SOURCE_DIR BUILD_DIR
# MODE: shared, static (of the installed package), build_folder, c, pkg_config, headers (under every
# compiler, standard and warning), subproject_options (what a parent keeps), add_subdirectory, parent (an
# installed library around stepfuse)
set -euo pipefail
mode=$1 source=$2 build=$3
here=$source/tests/consumer
work=$build/consumer-$mode
prefix=$work/prefix
rm -rf "$prefix"
mkdir -p "$work"
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
# The build folder's options, so that ccache can supply the objects.
options=(-DCMAKE_BUILD_TYPE=Release -DSTEPFUSE_WERROR=ON)
fail() { echo "$*" >&2 && exit 1; }

configure() { # SOURCE BUILD OPTION...
  cmake -S "$here/$1" -B "$2" -G Ninja "${launcher[@]}" "${@:3}" >/dev/null
}
run_consumer() { # SOURCE OPTION...
  configure "$1" "$work/build" "${@:2}"
  cmake --build "$work/build" --target consumer -j2 >/dev/null
  "$(find "$work/build" -type f -name consumer -perm -u+x | head -n 1)"
}
# Checks that only include/stepfuse/ is installed, together with the tool and the licence.
install_stepfuse() {
  cmake --install "$build" --prefix "$prefix" >/dev/null
  [ "$(ls "$prefix/include")" = stepfuse ] || fail "headers outside of include/stepfuse: $(ls "$prefix/include")"
  [ -n "$(find "$prefix" -name LICENSE)" ] || fail "no licence was installed"
  [ -e "$build/bin/stepfuse" ] || return 0
  "$prefix/bin/stepfuse" --version >/dev/null
  local file
  for file in man/man1/stepfuse-dump.1 man/man7/stepfuse-recipe-options.7 bash-completion/completions/stepfuse; do
    [ -s "$prefix/share/$file" ] || fail "$file was not installed"
  done
}

case $mode in
  shared | static)
    install_stepfuse
    run_consumer find_package -DCMAKE_PREFIX_PATH="$prefix" -DKIND="${mode/shared/}"
    libraries=$(ldd "$work/build/consumer") # whole first: a pipe that grep -q leaves early has failed
    [[ $libraries == *libstepfuse.so.0.1* ]] && linked=shared || linked=static
    [ "$mode" = $linked ] || fail "the consumer is linked to the $linked library"
    ;;
  build_folder) run_consumer find_package -Dstepfuse_DIR="$build" ;;
  c)
    install_stepfuse
    run_consumer c -DCMAKE_PREFIX_PATH="$prefix"
    ;;
  pkg_config)
    command -v pkg-config >/dev/null || { echo "skipped: no pkg-config" && exit 0; }
    install_stepfuse
    rm -rf "$work/moved" && mv "$prefix" "$work/moved" # it may be moved
    pc=$(dirname "$(find "$work/moved" -name stepfuse.pc)")
    flags() { PKG_CONFIG_PATH=$pc pkg-config "$@" stepfuse; }
    read -ra shared < <(flags --cflags --libs)
    gcc -std=c99 -pedantic "$here/main.c" "${shared[@]}" -Wl,-rpath,"$(flags --variable=libdir)" -o "$work/consumer_c"
    "$work/consumer_c"
    read -ra static < <(flags --static --cflags --libs)
    gcc -std=c99 "$here/main.c" "${static[@]}" -o "$work/consumer_static"
    libraries=$(ldd "$work/consumer_static")
    [[ $libraries != *libstepfuse* ]] || fail "--static linked the shared library"
    "$work/consumer_static"
    ;;
  headers)
    includes=(-I"$source/ir/include" -I"$source/compiler/include" -I"$source/runtime/include" -I"$here" -I"$source")
    warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only)
    for compiler in g++ clang++-19; do
      command -v $compiler >/dev/null || { echo "skipped: no $compiler" && continue; }
      for standard in 20 23; do
        # The README shows samples/embed/main.cpp.
        for file in "$here/main.cpp" "$source/samples/embed/main.cpp"; do
          $compiler -std=c++$standard "${warnings[@]}" "${includes[@]}" "$file"
        done
      done
      said=$(echo '#include <stepfuse/stepfuse.hpp>' | LC_ALL=C $compiler -std=c++17 -fsyntax-only "${includes[@]}" -x c++ - 2>&1) &&
        fail "the headers compile as C++17"
      [[ $said == *"stepfuse needs C++20"* ]] || fail "the headers do not say that they need C++20: $said"
      lines=$(cd "$source" && basename -a */include/stepfuse/*.h* | sed 's:.*:#include <stepfuse/&>:')
      compile_lines() { $compiler -std=c++20 "${warnings[@]}" "${includes[@]}" -x c++ -; }
      compile_lines <<<"$lines"
      # Which headers a header includes is the same for each compiler.
      [[ $compiler == g++ ]] || continue
      while read -r line; do compile_lines <<<"$line"; done <<<"$lines"
    done
    gcc -std=c99 "${warnings[@]}" "${includes[@]}" "$here/main.c"
    ;;
  subproject_options)
    # The parent chose no build type and no -Werror, and keeps both; our option turns the latter on.
    configure add_subdirectory "$work/plain"
    ! grep -q libstepfuse "$work/plain/stepfuse/cmake_install.cmake" || fail "installs without being asked"
    grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=$' "$work/plain/CMakeCache.txt" || fail "the parent's build type was changed"
    ! grep -q -e -Werror "$work/plain/build.ninja" || fail "a consumer's compiler gets -Werror"
    ! grep -q -e cmake_pch "$work/plain/build.ninja" || fail "a consumer's build precompiles headers"
    configure add_subdirectory "$work/strict" "${options[@]}" -DSTEPFUSE_LIBRARIES=shared
    grep -q -e -Werror "$work/strict/build.ninja" || fail "STEPFUSE_WERROR=ON does nothing"
    ! grep -q libstepfuse.a "$work/strict/build.ninja" || fail "STEPFUSE_LIBRARIES=shared builds the static library"
    grep -q libstepfuse.a "$work/plain/build.ninja" || fail "a subproject is not the static library"
    said=$(configure add_subdirectory "$work/wrong" -DSTEPFUSE_LIBRARIES=dynamic 2>&1) && fail "STEPFUSE_LIBRARIES=dynamic is accepted"
    said=$(tr -s ' \n' ' ' <<<"$said")
    [[ $said == *"expected static, shared"*"got 'dynamic'"* ]] || fail "a wrong STEPFUSE_LIBRARIES is not explained: $said"
    ;;
  add_subdirectory) run_consumer add_subdirectory "${options[@]}" ;;
  parent)
    configure parent "$work/parent" "${options[@]}" -DCMAKE_INSTALL_PREFIX="$prefix"
    cmake --build "$work/parent" -j2 >/dev/null
    cmake --install "$work/parent" >/dev/null
    run_consumer child -DCMAKE_PREFIX_PATH="$prefix"
    ;;
  *) fail "there is no mode $mode" ;;
esac

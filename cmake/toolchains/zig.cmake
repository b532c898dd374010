# macOS and musl, with the clang and the headers of PyPI's ziglang. REPRISE_ZIG_TARGET is a target of
# zig, such as aarch64-macos or x86_64-linux-musl, and REPRISE_ZIG the folder of the compilers that
# tools/cross makes for it.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES REPRISE_ZIG_TARGET REPRISE_ZIG REPRISE_CROSS_PREFIX)
if(REPRISE_ZIG_TARGET MATCHES "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  set(CMAKE_MACOSX_RPATH OFF)
  # CMake asks for it, and calls it only to install shared libraries.
  set(CMAKE_INSTALL_NAME_TOOL ${REPRISE_ZIG}/install_name_tool)
else()
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_EXE_LINKER_FLAGS_INIT "-static")
endif()
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR ${REPRISE_ZIG_TARGET})
set(CMAKE_C_COMPILER ${REPRISE_ZIG}/cc)
set(CMAKE_CXX_COMPILER ${REPRISE_ZIG}/c++)
set(CMAKE_AR ${REPRISE_ZIG}/ar)
set(CMAKE_RANLIB ${REPRISE_ZIG}/ranlib)
set(CMAKE_FIND_ROOT_PATH ${REPRISE_CROSS_PREFIX})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Libraries of the building machine are not those of the target.
set(ENV{PKG_CONFIG_LIBDIR} ${REPRISE_CROSS_PREFIX}/lib/pkgconfig)

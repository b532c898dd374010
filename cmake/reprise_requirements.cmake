# Looks for the compiler, programs and headers that building needs, and names all packages that are
# missing at once. Runs before languages are enabled, because CMake would end there without one.
include(CheckLanguage)
# Debian's package  how it is found  what is looked for
set(requirements
  flatbuffers-compiler program flatc
  libflatbuffers-dev   header  flatbuffers/flatbuffers.h
  libxxhash-dev        header  xxhash.h
  libzstd-dev          header  zstd.h)
if(REPRISE_TOOLS)
  list(APPEND requirements
    libcli11-dev         header  CLI/CLI.hpp)
endif()
if(REPRISE_TOOLS OR REPRISE_COMPILER)
  list(APPEND requirements
    nlohmann-json3-dev   header  nlohmann/json.hpp)
endif()
if(REPRISE_VULKAN)
  list(APPEND requirements
    libvulkan-dev        header  vulkan/vulkan.h
    libvulkan-volk-dev   header  volk.h)
endif()
if(REPRISE_COMPILER)
  list(APPEND requirements
    libprotobuf-dev      header  google/protobuf/message_lite.h
    protobuf-compiler    program protoc
    spirv-headers        header  spirv/unified1/spirv.hpp)
endif()

set(missing)
set(missing_packages)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  string(APPEND missing "\n  a C++ compiler (Debian's package g++)")
  list(APPEND missing_packages g++)
endif()
if(SKBUILD AND NOT EXISTS "${Python_INCLUDE_DIR}/Python.h")
  string(APPEND missing "\n  header Python.h in ${Python_INCLUDE_DIR} (Debian's package python3-dev)")
  list(APPEND missing_packages python3-dev)
endif()
while(requirements)
  list(POP_FRONT requirements package kind name)
  string(MAKE_C_IDENTIFIER "REPRISE_FOUND_${kind}_${name}" found)
  if(kind STREQUAL "program")
    find_program(${found} ${name})
  else()
    find_path(${found} ${name})
  endif()
  mark_as_advanced(${found})
  if(NOT ${found})
    string(APPEND missing "\n  ${kind} ${name} (Debian's package ${package})")
    list(APPEND missing_packages ${package})
  endif()
endwhile()
if(missing)
  list(REMOVE_DUPLICATES missing_packages)
  list(JOIN missing_packages " " missing_packages)
  message(FATAL_ERROR "Building Reprise needs what was not found:${missing}\n"
          "On Debian: apt-get install ${missing_packages}\n"
          "tools/setup installs everything. In other places, they are found with CMAKE_PREFIX_PATH.")
endif()

# Looks for the headers, libraries and programs that building needs beside a compiler, and names all
# packages that are missing at once. Later find_ commands find the same.
set(requirements
  # Debian's package  how it is found  what is looked for
  flatbuffers-compiler program flatc
  libcli11-dev         header  CLI/CLI.hpp
  libflatbuffers-dev   header  flatbuffers/flatbuffers.h
  libprotobuf-dev      header  google/protobuf/message_lite.h
  libprotobuf-dev      library protobuf-lite
  libvulkan-dev        header  vulkan/vulkan.h
  libvulkan-volk-dev   header  volk.h
  libxxhash-dev        header  xxhash.h
  libxxhash-dev        library xxhash
  libzstd-dev          header  zstd.h
  libzstd-dev          library zstd
  nlohmann-json3-dev   header  nlohmann/json.hpp
  protobuf-compiler    program protoc
  spirv-headers        header  spirv/unified1/spirv.hpp)

set(missing)
set(missing_packages)
while(requirements)
  list(POP_FRONT requirements package kind name)
  string(MAKE_C_IDENTIFIER "REPRISE_FOUND_${kind}_${name}" found)
  if(kind STREQUAL "program")
    find_program(${found} ${name})
  elseif(kind STREQUAL "header")
    find_path(${found} ${name})
  else()
    find_library(${found} ${name})
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

# The shared libraries, which contain the same code as the static ones:
#   libreprise           runtime and backends: include/reprise/reprise.h
#   libreprise_compiler  the compiler: include/reprise/compiler.h
#   libreprise_extras    kernels that few models need; libreprise opens it when a package needs them
# They export only what REPRISE_API marks. The symbols' version and the SONAME are REPRISE_ABI_VERSION.
file(STRINGS ${PROJECT_SOURCE_DIR}/include/reprise/types.h line REGEX "^#define REPRISE_ABI_VERSION [0-9]+$")
string(REGEX REPLACE ".* " "" REPRISE_ABI_VERSION "${line}")
set(reprise_soversion ${REPRISE_ABI_VERSION}.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH})

# Relative relocations take a few bytes instead of 24 each. glibc 2.36 reads them.
include(CheckLinkerFlag)
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
  check_linker_flag(CXX LINKER:-z,pack-relative-relocs REPRISE_PACKS_RELOCATIONS)
endif()

# reprise_exported_functions(RESULT HEADER...): the names of the functions that public headers declare.
function(reprise_exported_functions result)
  set(names)
  foreach(header ${ARGN})
    set(path ${PROJECT_SOURCE_DIR}/include/reprise/${header})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} text)
    string(REGEX MATCHALL "\nREPRISE_API [^;(]*[ *\n]reprise_[a-z0-9_]+\\(" declarations "${text}")
    foreach(declaration ${declarations})
      string(REGEX MATCH "reprise_[a-z0-9_]+\\($" name "${declaration}")
      string(REPLACE "(" "" name "${name}")
      list(APPEND names ${name})
    endforeach()
  endforeach()
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# reprise_shared_library(TARGET ARCHIVE HEADERS header... [PRIVATE symbol...]): a shared library of what
# the functions of the headers need from the static library. Private symbols are for our other libraries.
function(reprise_shared_library target archive)
  cmake_parse_arguments(ARG "" "" "HEADERS;PRIVATE" ${ARGN})
  set(names)
  set(map "REPRISE_PRIVATE {\n  global:\n")
  if(ARG_HEADERS)
    reprise_exported_functions(names ${ARG_HEADERS})
    list(JOIN names ";\n    " listed)
    set(map "REPRISE_${REPRISE_ABI_VERSION} {\n  global:\n    ${listed};\n  local:\n    *;\n};\n")
    if(ARG_PRIVATE)
      list(JOIN ARG_PRIVATE ";\n    " listed)
      string(APPEND map "REPRISE_PRIVATE {\n  global:\n    ${listed};\n};\n")
    endif()
  else()
    list(JOIN ARG_PRIVATE ";\n    " listed)
    set(map "REPRISE_PRIVATE {\n  global:\n    ${listed};\n  local:\n    *;\n};\n")
  endif()
  set(exports ${CMAKE_BINARY_DIR}/generated/${target}.map)
  target_link_libraries(${target} PRIVATE ${archive} reprise_warnings)
  set(prefix "")  # of symbols
  if(APPLE)
    set(prefix "_")
  endif()
  foreach(name ${names} ${ARG_PRIVATE})
    target_link_options(${target} PRIVATE LINKER:-u,${prefix}${name})
  endforeach()
  if(WIN32)
    list(JOIN names "\n  " listed)
    set(exports ${CMAKE_BINARY_DIR}/generated/${target}.def)
    set(map "EXPORTS\n  ${listed}\n")
    if(ARG_PRIVATE)
      list(JOIN ARG_PRIVATE "\n  " listed)
      string(APPEND map "  ${listed}\n")
    endif()
    target_sources(${target} PRIVATE ${exports})
    # As programs of this system expect it: reprise.dll.
    set_target_properties(${target} PROPERTIES PREFIX "")
  elseif(APPLE)
    list(TRANSFORM names PREPEND "_")
    list(TRANSFORM ARG_PRIVATE PREPEND "_")
    list(JOIN names "\n" map)
    list(JOIN ARG_PRIVATE "\n" listed)
    string(APPEND map "\n${listed}\n")
    target_link_options(${target} PRIVATE LINKER:-exported_symbols_list,${exports})
  else()
    # Threads of drivers may outlive the last handle, so the library stays in the process.
    target_link_options(${target} PRIVATE LINKER:--version-script=${exports} LINKER:-z,defs LINKER:-z,nodelete)
    # mold of Debian 12 does not mark libraries with relative relocations as glibc expects it.
    if(REPRISE_MOLD OR REPRISE_LLD)
      target_link_options(${target} PRIVATE -fuse-ld=bfd)
    endif()
    if(REPRISE_PACKS_RELOCATIONS)
      target_link_options(${target} PRIVATE LINKER:-z,pack-relative-relocs)
    endif()
  endif()
  file(CONFIGURE OUTPUT ${exports} CONTENT "${map}" @ONLY)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                        LINK_DEPENDS ${exports})
  if(ARG_HEADERS)  # others are opened by their name
    set_target_properties(${target} PROPERTIES VERSION ${reprise_soversion} SOVERSION ${REPRISE_ABI_VERSION})
  endif()
endfunction()

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/empty.cpp CONTENT "")
add_library(reprise_so SHARED ${CMAKE_BINARY_DIR}/generated/empty.cpp)
set_target_properties(reprise_so PROPERTIES OUTPUT_NAME reprise EXPORT_NAME reprise)
reprise_shared_library(reprise_so reprise_backends HEADERS types.h device.h session.h functions.h
                       PRIVATE reprise_private_handles)

if(UNIX AND NOT APPLE)  # it opens libraries of ours that lie beside it
  set_target_properties(reprise_so PROPERTIES BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
endif()
if(REPRISE_EXTRAS)
  # Of the archive's file, because the target would make the kernels known to this library alone.
  add_library(reprise_extras_so SHARED ${CMAKE_BINARY_DIR}/generated/empty.cpp)
  set_target_properties(reprise_extras_so PROPERTIES OUTPUT_NAME reprise_extras)
  reprise_shared_library(reprise_extras_so $<TARGET_FILE:reprise_extras> PRIVATE reprise_extra_kernels)
  target_link_libraries(reprise_extras_so PRIVATE reprise_runtime)
  add_dependencies(reprise_extras_so reprise_extras)
  set_property(TARGET reprise_extras_so APPEND PROPERTY LINK_DEPENDS $<TARGET_FILE:reprise_extras>)
endif()
target_include_directories(reprise_so INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(NOT REPRISE_COMPILER)
  return()
endif()

# Its table of handles is that of libreprise.
add_library(reprise_compiler_so SHARED ${PROJECT_SOURCE_DIR}/capi/compiler/handle_table.cpp)
set_target_properties(reprise_compiler_so PROPERTIES OUTPUT_NAME reprise_compiler EXPORT_NAME compiler)
target_include_directories(reprise_compiler_so PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_definitions(reprise_compiler_so PRIVATE REPRISE_VERSION="${PROJECT_VERSION}")
target_include_directories(reprise_compiler_so PRIVATE ${CMAKE_BINARY_DIR}/generated)
add_dependencies(reprise_compiler_so reprise_backends)  # which makes reprise_build_id.h
set_source_files_properties(${PROJECT_SOURCE_DIR}/capi/compiler/handle_table.cpp PROPERTIES
                            OBJECT_DEPENDS ${CMAKE_BINARY_DIR}/generated/reprise_build_id.h)
reprise_shared_library(reprise_compiler_so reprise_codegen HEADERS compiler.h graph.h)
target_link_libraries(reprise_compiler_so PUBLIC reprise_so)
# An archive may be unpacked anywhere, and a program may open the compiler by its path alone.
if(APPLE)
  set_target_properties(reprise_compiler_so PROPERTIES INSTALL_RPATH "@loader_path")
elseif(NOT WIN32)
  set_target_properties(reprise_compiler_so PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()

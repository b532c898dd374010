# Compiler settings that every target of the project shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

# On Debian, libraries of an architecture have a folder of their own, whatever the prefix is.
if(EXISTS /etc/debian_version AND CMAKE_LIBRARY_ARCHITECTURE AND NOT SKBUILD)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "Folder of libraries")
endif()

# Paths below the source folder are hashed relative to the build folder, so that clones share results.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

# mold, or else lld, links several times faster than the default linker.
if(CMAKE_SYSTEM_NAME STREQUAL Linux AND NOT CMAKE_CROSSCOMPILING)
  find_program(REPRISE_MOLD mold)
  find_program(REPRISE_LLD ld.lld)
  mark_as_advanced(REPRISE_MOLD REPRISE_LLD)
  if(REPRISE_MOLD)
    add_link_options(-fuse-ld=mold)
  elseif(REPRISE_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# Numerics are ours (decision 5): the compiler must not fuse or reorder floating-point operations.
add_compile_options(-ffp-contract=off -fno-math-errno)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-O2 -ffunction-sections -fdata-sections)
  if(APPLE)
    add_link_options(-Wl,-dead_strip)
  else()
    add_link_options(-Wl,--gc-sections)
  endif()
endif()
if(REPRISE_ASAN)
  add_compile_options(-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()

if(REPRISE_TSAN)
  add_compile_options(-O1 -g1 -fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

if(REPRISE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "REPRISE_FUZZ needs clang: cmake --preset fuzz")
  endif()
  add_compile_options(-O1 -g1 -fsanitize=fuzzer-no-link,address,undefined
                      -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()

add_library(reprise_warnings INTERFACE)
target_compile_options(reprise_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       -Wno-sign-conversion -Wnon-virtual-dtor)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False positives on std::string concatenation (GCC bug 105329), fixed in GCC 13.
  target_compile_options(reprise_warnings INTERFACE -Wno-restrict)
endif()

if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT CMAKE_CXX_COMPILER_VERSION VERSION_LESS 22)
  # -Wpedantic warns of __COUNTER__, which every compiler has.
  target_compile_options(reprise_warnings INTERFACE -Wno-c2y-extensions)
endif()

if((REPRISE_ASAN OR REPRISE_TSAN) AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False positives in instrumented code, which GCC's manual warns of.
  target_compile_options(reprise_warnings INTERFACE -Wno-maybe-uninitialized)
endif()

# ccache knows a precompiled header by its contents if the preprocessor names it.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()

# reprise_precompile(TARGET): the standard library's headers are read once for the target.
function(reprise_precompile target)
  get_target_property(headers ${target} PRECOMPILE_HEADERS)
  if(NOT headers)
    # The path is relative, so that clones in different folders share what ccache keeps.
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:<cmake/precompiled.h$<ANGLE-R>>")
  endif()
endfunction()

# reprise_join_sources(TARGET): compiles up to eight sources of a folder as one, which takes less than half of
# the time. Names in anonymous namespaces are therefore unique within a folder.
option(REPRISE_UNITY "Compile several sources at once" ON)
function(reprise_join_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${REPRISE_UNITY} UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  set(last "")
  foreach(source ${sources})
    get_filename_component(folder "${source}" ABSOLUTE)
    get_filename_component(folder "${folder}" DIRECTORY)
    if(folder STREQUAL last)
      math(EXPR count "${count} + 1")
    else()
      set(count 0)
    endif()
    set(last "${folder}")
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} "${folder}")
    string(REPLACE "/" "_" name "${name}")
    math(EXPR number "${count} / 8")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${number})
  endforeach()
endfunction()

# reprise_compile_fast(TARGET): for code in which the compiler's time matters more than its own.
function(reprise_compile_fast target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  reprise_precompile(${target})
  reprise_join_sources(${target})
endfunction()

# reprise_keep_libraries(TARGET): where leaks are looked for, a program keeps its libraries loaded.
function(reprise_keep_libraries target)
  if(REPRISE_ASAN)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/keep_libraries.cpp)
  endif()
endfunction()

# reprise_library(NAME DIRS dir... DEPS target...): a static library of all sources in the folders,
# without those whose path matches EXCLUDE.
function(reprise_library name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "DIRS;DEPS;PRIVATE_DEPS" ${ARGN})
  set(sources)
  foreach(dir ${ARG_DIRS})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCLUDE}")
  endif()
  if(NOT sources)
    message(FATAL_ERROR "${name}: no sources in ${ARG_DIRS}")
  endif()
  add_library(${name} STATIC ${sources})
  reprise_precompile(${name})
  reprise_join_sources(${name})
  # Shared libraries export only what REPRISE_API marks.
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  add_library(reprise::${name} ALIAS ${name})
  target_compile_definitions(${name} PRIVATE REPRISE_STATIC)  # of the libraries, not of their users
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE $<BUILD_INTERFACE:reprise_warnings> ${ARG_PRIVATE_DEPS})
endfunction()

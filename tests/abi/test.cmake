# Programs that were compiled with the headers of an earlier version run with the library of today.
if(NOT REPRISE_SHARED)
  return()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
# For abidiff: what defines the functions of the shared libraries, with debug information. Calls of
# everything else stay undefined. capi/shared.cpp is for our other library.
find_program(ABIDIFF abidiff)
if(ABIDIFF)
  file(GLOB api CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/capi/*.cpp)
  list(FILTER api EXCLUDE REGEX "/capi/shared[.]cpp$")
  add_library(reprise_abi MODULE ${api})
  add_library(reprise_compiler_abi MODULE ${PROJECT_SOURCE_DIR}/capi/compiler/compiler.cpp)
  foreach(library reprise_backends:reprise_abi:reprise_so reprise_codegen:reprise_compiler_abi:reprise_compiler_so)
    string(REPLACE ":" ";" library ${library})
    list(POP_FRONT library archive target shared)
    target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:${archive},COMPILE_DEFINITIONS>)
    target_include_directories(${target} PRIVATE $<TARGET_PROPERTY:${archive},INCLUDE_DIRECTORIES>)
    target_compile_options(${target} PRIVATE -g -O0)
    target_link_options(${target} PRIVATE LINKER:--version-script=${CMAKE_BINARY_DIR}/generated/${shared}.map)
    set_target_properties(${target} PROPERTIES PREFIX "" NO_SONAME TRUE CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/abi-debug)
  endforeach()
else()
  message(STATUS "the binary interface is not compared by abidiff (Debian's package abigail-tools)")
endif()
add_test(NAME abi
         COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${CMAKE_BINARY_DIR} -DSOURCE_DIR=${PROJECT_SOURCE_DIR}
                 -DWORK_DIR=${CMAKE_CURRENT_BINARY_DIR}/abi -DONNX_SUITE=${REPRISE_ONNX_SUITE}
                 -DCC=${CMAKE_C_COMPILER} -DCXX=${CMAKE_CXX_COMPILER} -DPYTHON=${Python3_EXECUTABLE}
                 -DABIDIFF=${ABIDIFF} -DDEBUG_DIR=${CMAKE_CURRENT_BINARY_DIR}/abi-debug
                 -P ${CMAKE_CURRENT_SOURCE_DIR}/abi/run.cmake)
set_tests_properties(abi PROPERTIES LABELS quick TIMEOUT 300 ENVIRONMENT "${test_environment}")

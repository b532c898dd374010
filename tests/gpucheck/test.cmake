# tools/gpu-check: what needs no driver, and whole runs on the stand-in.
find_package(Python3 3.10 QUIET COMPONENTS Interpreter)
if(NOT Python3_Interpreter_FOUND)
  message(STATUS "python3 is missing: tools/gpu-check is not tested")
  return()
endif()
set(gpucheck_environment ${test_environment} "REPRISE_BUILD=${CMAKE_BINARY_DIR}"
    "REPRISE_MODELS=${REPRISE_MODELS}" "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/lib/cuda-standin")
add_test(NAME gpucheck
         COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/gpucheck/gpucheck_test.py)
set_tests_properties(gpucheck PROPERTIES LABELS quick TIMEOUT 600)
# Packing compiles every kernel of the cases for the GPU, so that is in the full tier.
foreach(tier quick full)
  set(name gpucheck_standin)
  set(class OnTheStandIn)
  if(tier STREQUAL full)
    string(APPEND name _full)
    string(PREPEND class Full)
  endif()
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B
           ${CMAKE_CURRENT_SOURCE_DIR}/gpucheck/standin_test.py ${class})
  set_tests_properties(${name} PROPERTIES LABELS ${tier} TIMEOUT 1800
                       ENVIRONMENT "${gpucheck_environment}")
endforeach()

# Programs that were compiled with the headers of an earlier version run with the library of today.
if(REPRISE_SHARED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME abi
           COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${CMAKE_BINARY_DIR} -DSOURCE_DIR=${PROJECT_SOURCE_DIR}
                   -DWORK_DIR=${CMAKE_CURRENT_BINARY_DIR}/abi -DONNX_SUITE=${REPRISE_ONNX_SUITE}
                   -DCC=${CMAKE_C_COMPILER} -DPYTHON=${Python3_EXECUTABLE}
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/abi/run.cmake)
  set_tests_properties(abi PROPERTIES LABELS quick TIMEOUT 300 ENVIRONMENT "${test_environment}")
endif()

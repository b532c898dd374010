# bench/peers, as far as it needs no network: reports of recorded results, errors of usage.
find_package(Python3 3.10 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  add_test(NAME peers COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/peers/peers_test.py)
  set_tests_properties(peers PROPERTIES LABELS quick TIMEOUT 120
    ENVIRONMENT "REPRISE_BINARIES=${CMAKE_BINARY_DIR}/bin;REPRISE_ONNX_SUITE=${REPRISE_ONNX_SUITE}")
else()
  message(STATUS "python3 is missing: bench/peers is not tested")
endif()

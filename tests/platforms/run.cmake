# The test platforms; test.cmake says with which variables.
function(run)
  cmake_parse_arguments(RUN "" "EXPECT" "COMMAND" ${ARGN})
  execute_process(COMMAND ${RUN_COMMAND} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT status EQUAL 0 OR NOT out MATCHES "${RUN_EXPECT}")
    message(FATAL_ERROR "failed (${status}): ${RUN_COMMAND}\n${out}\n${err}")
  endif()
  message(STATUS "${out}")
endfunction()

file(REMOVE_RECURSE ${WORK_DIR} ${WORK_DIR}-paths)
foreach(case test_sigmoid test_gemm_beta test_loop11)
  file(COPY ${ONNX_SUITE}/node/${case}/model.onnx ${ONNX_SUITE}/node/${case}/test_data_set_0
       DESTINATION ${WORK_DIR}/${case})
  run(COMMAND ${BUILD_DIR}/bin/reprise compile ${ONNX_SUITE}/node/${case}/model.onnx
              -o ${WORK_DIR}/${case}/model.rpk --targets vulkan)
endforeach()
# Seven of the host's results are about files.
run(COMMAND ${BUILD_DIR}/bin/reprise_replay_static ${WORK_DIR} host vulkan:0
    EXPECT "host [^\n]*: 1[01] right, 0 wrong\nvulkan:0 [^\n]*: 4 right, 0 wrong")
run(COMMAND ${BUILD_DIR}/bin/reprise_measure ${WORK_DIR}/test_gemm_beta/model.rpk EXPECT "\nvulkan[^\n]*\n[0-9]+ us\n")
run(COMMAND ${SOURCE_DIR}/tests/platforms/command_line ${WORK_DIR} ${WORK_DIR}-paths ${BUILD_DIR}/bin/reprise
    EXPECT "3 cases right")

# A result that differs is found.
file(COPY_FILE ${WORK_DIR}/test_sigmoid/test_data_set_0/input_0.pb
               ${WORK_DIR}/test_sigmoid/test_data_set_0/output_0.pb)
execute_process(COMMAND ${BUILD_DIR}/bin/reprise_replay_static ${WORK_DIR} host RESULT_VARIABLE status OUTPUT_VARIABLE out)
if(NOT status EQUAL 1 OR NOT out MATCHES "WRONG test_sigmoid on host: run 0: element 0")
  message(FATAL_ERROR "a wrong result: exit ${status}\n${out}")
endif()

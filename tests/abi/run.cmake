# The test abi; test.cmake says with which variables.
function(run)
  cmake_parse_arguments(RUN "" "EXPECT" "COMMAND" ${ARGN})
  execute_process(COMMAND ${RUN_COMMAND} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT status EQUAL 0 OR NOT out MATCHES "${RUN_EXPECT}")
    message(FATAL_ERROR "failed (${status}): ${RUN_COMMAND}\n${out}\n${err}")
  endif()
  message(STATUS "${out}")
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
set(old_headers ${SOURCE_DIR}/tests/abi/v1)
run(COMMAND ${PYTHON} ${SOURCE_DIR}/tests/abi/layout.py ${CC} ${old_headers} ${SOURCE_DIR}/include
    EXPECT "functions, .* 0 differ")

run(COMMAND ${BUILD_DIR}/bin/reprise compile ${ONNX_SUITE}/node/test_sigmoid/model.onnx -o ${WORK_DIR}/model.rpk)
set(strict -std=c99 -Wall -Wextra -Wpedantic -Werror -I${old_headers})
run(COMMAND ${CC} ${strict} ${SOURCE_DIR}/tests/consumer/replay.c -o ${WORK_DIR}/replay
            -L${BUILD_DIR}/lib -lreprise)
run(COMMAND ${CC} ${strict} ${SOURCE_DIR}/tests/abi/open_at_run_time.c -o ${WORK_DIR}/open_at_run_time -ldl)
set(ENV{LD_LIBRARY_PATH} ${BUILD_DIR}/lib:$ENV{LD_LIBRARY_PATH})
foreach(device host auto)
  run(COMMAND ${WORK_DIR}/replay ${WORK_DIR}/model.rpk ${device} EXPECT "^0\\.731059 ")
endforeach()
run(COMMAND ${WORK_DIR}/open_at_run_time ${BUILD_DIR}/lib/libreprise.so.1 ${WORK_DIR}/model.rpk
    EXPECT "^\\[3, 4, 5\\] 0\\.731059\n")

# The functions and types that were compiled into the libraries.
if(NOT ABIDIFF)
  return()
endif()
set(runtime_headers types.h device.h session.h functions.h)
set(compare ${PYTHON} ${SOURCE_DIR}/tests/abi/binary.py ${ABIDIFF} ${CXX})
run(COMMAND ${compare} ${old_headers} ${SOURCE_DIR}/include ${DEBUG_DIR}/reprise_abi.so ${runtime_headers}
    EXPECT "[1-9][0-9]* functions are as they were")
run(COMMAND ${compare} ${old_headers} ${SOURCE_DIR}/include ${DEBUG_DIR}/reprise_compiler_abi.so compiler.h
    EXPECT "[1-9][0-9]* functions are as they were")

# A function that is gone, and a member that was wider, are found.
set(other_headers ${WORK_DIR}/other)
file(COPY ${old_headers}/ DESTINATION ${other_headers})
function(replace header text by)
  file(READ ${other_headers}/reprise/${header} before)
  string(REPLACE "${text}" "${by}" after "${before}")
  if(before STREQUAL after)
    message(FATAL_ERROR "${header} does not have '${text}'")
  endif()
  file(WRITE ${other_headers}/reprise/${header} "${after}")
endfunction()
replace(types.h "REPRISE_API size_t" "REPRISE_API int reprise_gone(void);\nREPRISE_API size_t")
replace(device.h "uint32_t launch_count;" "uint64_t launch_count;")
execute_process(COMMAND ${compare} ${other_headers} ${SOURCE_DIR}/include ${DEBUG_DIR}/reprise_abi.so
                        ${runtime_headers} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(status EQUAL 0 OR NOT out MATCHES "1 Removed, .*reprise_gone.*uint64_t launch_count")
  message(FATAL_ERROR "other headers: exit ${status}\n${out}\n${err}")
endif()

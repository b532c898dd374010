# The test packages; test.cmake says with which variables.
set(packages libreprise1 libreprise-compiler1 libreprise-images libreprise-dev reprise-tools)

function(run)
  cmake_parse_arguments(RUN "" "EXPECT;OUTPUT" "COMMAND" ${ARGN})
  execute_process(COMMAND ${RUN_COMMAND} WORKING_DIRECTORY ${WORK_DIR} RESULT_VARIABLE status
                  OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT status EQUAL 0 OR NOT out MATCHES "${RUN_EXPECT}")
    message(FATAL_ERROR "failed (${status}): ${RUN_COMMAND}\n${out}\n${err}")
  endif()
  if(RUN_OUTPUT)
    set(${RUN_OUTPUT} "${out}" PARENT_SCOPE)
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR}/root)
run(COMMAND ${CPACK} --config ${BUILD_DIR}/CPackConfig.cmake -G DEB -D CPACK_PACKAGE_DIRECTORY=${WORK_DIR})
foreach(package ${packages})
  file(GLOB deb ${WORK_DIR}/${package}_*.deb)
  list(LENGTH deb count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "there are ${count} packages of ${package}")
  endif()
  list(APPEND debs ${deb})
  run(COMMAND dpkg-deb --field ${deb} Package EXPECT "^${package}\n$")
  run(COMMAND dpkg-deb --contents ${deb} EXPECT "/usr/share/doc/${package}/copyright\n" OUTPUT contents)
  if(contents MATCHES "/${CMAKE_HOST_SYSTEM_NAME}|\\./home|\\./work|\\./root")
    message(FATAL_ERROR "${package} has files of this machine:\n${contents}")
  endif()
  run(COMMAND dpkg-deb --extract ${deb} ${WORK_DIR}/root)
endforeach()
# A package needs what its library is linked with, in that version or later.
list(GET debs 0 deb)
run(COMMAND dpkg-deb --field ${deb} Depends EXPECT "libzstd1.*\n")
list(GET debs 1 deb)
run(COMMAND dpkg-deb --field ${deb} Depends EXPECT "libreprise1 \\(= .*\n")
list(GET debs 3 deb)
run(COMMAND dpkg-deb --field ${deb} Depends EXPECT "libreprise1 \\(= .*libreprise-compiler1 \\(= .*\n")

# Programs that are compiled and run with what the packages hold.
set(model ${ONNX_SUITE}/node/test_sigmoid/model.onnx)
file(GLOB_RECURSE pc ${WORK_DIR}/root/usr/lib/reprise.pc)
get_filename_component(libraries_dir ${pc} DIRECTORY)
get_filename_component(libraries_dir ${libraries_dir} DIRECTORY)
set(ENV{PKG_CONFIG_LIBDIR} ${libraries_dir}/pkgconfig)
# The compiler finds the runtime beside it, also in a program that opens it by its path.
run(COMMAND ${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH ldd ${libraries_dir}/libreprise_compiler.so.1
    EXPECT "libreprise.so.1 => ${libraries_dir}/libreprise.so.1")
set(ENV{LD_LIBRARY_PATH} ${libraries_dir})
run(COMMAND ${WORK_DIR}/root/usr/bin/reprise compile ${model} -o ${WORK_DIR}/model.rpk)
run(COMMAND pkg-config --cflags --libs reprise OUTPUT flags)
separate_arguments(flags UNIX_COMMAND "${flags}")
run(COMMAND ${CC} -std=c99 ${SOURCE_DIR}/tests/consumer/replay.c -o ${WORK_DIR}/replay ${flags})
run(COMMAND ${WORK_DIR}/replay ${WORK_DIR}/model.rpk auto EXPECT "^0\\.731059 ")

# Lintian, where it is installed. Its exceptions, with reasons:
#   initial-upload-closes-no-bugs, no-manual-page: these packages are not in Debian; --help is the manual
#   no-symbols-control-file: the version of all symbols is the SONAME's
#   maintscript-calls-ldconfig: CPack writes these scripts
#   package-name-doesnt-match-sonames, shared-library-lacks-version: libreprise_images is opened by its
#     name and is no library to link
set(exceptions initial-upload-closes-no-bugs maintscript-calls-ldconfig no-manual-page no-symbols-control-file
    package-name-doesnt-match-sonames shared-library-lacks-version)
find_program(LINTIAN lintian)
if(LINTIAN)
  list(JOIN exceptions "," suppressed)
  execute_process(COMMAND ${LINTIAN} --allow-root --suppress-tags ${suppressed} ${debs}
                  OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE status)
  if(NOT out STREQUAL "")
    message(FATAL_ERROR "lintian (${status}):\n${out}\n${err}")
  endif()
else()
  message(STATUS "lintian is not installed, so it has not checked the packages")
endif()

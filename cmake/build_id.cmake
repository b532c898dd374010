# Writes a header with the identity of a build: cmake -DRUNTIME=... -DBASE=... -DOUTPUT=... -P build_id.cmake
# Libraries of equal identity have the same classes, because the archives have the same bytes.
include(${CMAKE_CURRENT_LIST_DIR}/identity.cmake)
write_identity(${OUTPUT} REPRISE_BUILD_ID "" ${RUNTIME} ${BASE})

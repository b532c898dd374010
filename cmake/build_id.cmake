# Writes a header with the identity of a build: cmake -DRUNTIME=... -DBASE=... -DOUTPUT=... -P build_id.cmake
# Libraries of equal identity have the same classes, because the archives have the same bytes.
set(hashes)
foreach(archive ${RUNTIME} ${BASE})
  file(SHA256 ${archive} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 id "${hashes}")
string(SUBSTRING ${id} 0 16 id)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define REPRISE_BUILD_ID \"${id}\"\n")

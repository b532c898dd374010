# write_identity(OUTPUT MACRO SEED FILES...): writes a header that defines MACRO as the identity of the
# seed and of the contents of these files.
function(write_identity output macro seed)
  set(hashes "${seed}")
  foreach(file ${ARGN})
    file(SHA256 ${file} hash)
    string(APPEND hashes ${hash})
  endforeach()
  string(SHA256 id "${hashes}")
  string(SUBSTRING ${id} 0 16 id)
  file(CONFIGURE OUTPUT ${output} CONTENT "#define ${macro} \"${id}\"\n")
endfunction()

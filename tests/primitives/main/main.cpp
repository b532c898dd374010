// Records primitives for a device: tools/gpu-check packs what it writes.
#include <cstdio>
#include <cstring>

#include "tests/primitives/lib/record.h"

int main(int argc, char** argv) {
  using namespace reprise;
  const auto arch = argc > 2 ? CudaArch::parse(argv[2]) : std::nullopt;
  if (argc < 3 || argc > 4 || !arch || arch->ptx) {
    std::fprintf(stderr,
                 "usage: reprise_record_primitives FOLDER ARCHITECTURE [SOURCES]\n"
                 "ARCHITECTURE is sm_90a. With the folder SOURCES, records only what the stand-in "
                 "driver can execute.\nREPRISE_NVRTC names the compiler's library.\n");
    return 2;
  }
  const Status s = test::record(argv[1], *arch, argc == 4 ? argv[3] : "");
  if (s.ok()) return 0;
  std::fprintf(stderr, "%s\n", s.message().c_str());
  return 4;
}

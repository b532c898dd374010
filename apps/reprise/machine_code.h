// What a CUDA kernel consists of: its instructions, counted by kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/plan.h"

namespace reprise::app {

struct MachineCode {
  std::string_view source;  // "sass", or "ptx", which the driver compiles further
  uint32_t instructions = 0;
  uint32_t matrix = 0;        // multiplications by matrix units
  uint32_t async_copies = 0;  // from global to shared memory
  uint32_t local = 0;         // loads and stores of spilled registers and local arrays
  uint32_t barriers = 0;      // of a workgroup
  /// The loop with the most matrix instructions, without the loops around it; zero without one.
  uint32_t loop_instructions = 0, loop_matrix = 0;
};

/// How many workgroups of a kernel a multiprocessor holds at a time, and the share of its warps
/// that they are. From the table of compute capabilities in the CUDA C++ Programming Guide.
struct Occupancy {
  uint32_t workgroups = 0;
  double warps = 0;
};
/// Nothing if the limits of the architecture (10 * major + minor) are not known.
std::optional<Occupancy> occupancy_of(const plan::KernelCode& kernel, uint32_t architecture);

/// The first function in the output of `cuobjdump -sass`. Nothing if it has no instruction.
std::optional<MachineCode> read_sass(std::string_view text);
/// The first function of a PTX module. Nothing if it has no instruction.
std::optional<MachineCode> read_ptx(std::string_view text);

/// Counts the instructions of kernels. Cubins are disassembled by cuobjdump, which is looked for as
/// a shell does.
class MachineCodeReader {
 public:
  MachineCodeReader() = default;
  ~MachineCodeReader();
  MachineCodeReader(const MachineCodeReader&) = delete;
  MachineCodeReader& operator=(const MachineCodeReader&) = delete;

  /// Nothing for a kernel without an image, or for a cubin without a disassembler.
  std::optional<MachineCode> read(const plan::KernelCode& kernel, bool ptx);
  /// Whether a cubin could not be disassembled.
  bool lacks_disassembler() const { return lacks_disassembler_; }

 private:
  std::optional<MachineCode> disassembled(const plan::KernelCode& kernel);

  std::string folder_;  // with the files that are disassembled; empty until it is needed
  bool lacks_disassembler_ = false;
};

}  // namespace reprise::app

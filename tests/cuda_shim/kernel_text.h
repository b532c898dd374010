// What emitted CUDA text says about its kernels, read from the text as a driver reads a module.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::test {

/// A pointer in a kernel's parameter block.
struct BufferMember {
  std::string name;
  uint32_t offset = 0;   // in the block
  bool written = false;  // not a pointer to const
  bool read = true;      // the kernel loads from it
};

struct KernelText {
  std::string name;
  uint32_t max_threads = 1024;  // __launch_bounds__
  uint32_t block_bytes = 0;     // the one parameter's size
  uint32_t shared_bytes = 0;    // static shared memory
  uint32_t dynamic_bytes = 0;   // that launches give it
  bool waits = false;           // its invocations meet at barriers or exchange values
  std::vector<BufferMember> buffers;
};

/// The kernels of a text, in its order.
std::vector<KernelText> kernels_of(const std::string& text);
/// A function that runs an invocation (or, where invocations never wait, a workgroup) of a kernel:
/// `NAME_on_cpu`.
std::string launcher(const KernelText& kernel);

}  // namespace reprise::test

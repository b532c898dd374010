// Memory that another API or process has exported.
#pragma once

#include <cstdint>
#include <optional>

namespace reprise {

struct ExternalMemory {
  enum class Kind : uint8_t {
    OpaqueFd,               // a file descriptor that Vulkan or CUDA exported
    DmaBuf,                 // a file descriptor of a Linux dma-buf
    OpaqueWin32,            // an NT handle that Vulkan or CUDA exported
    AndroidHardwareBuffer,  // AHardwareBuffer*, of the format BLOB
  };
  Kind kind = Kind::OpaqueFd;
  uint64_t handle = 0;      // the importer never owns it
  uint64_t allocation = 0;  // bytes of the whole memory
  uint64_t offset = 0;      // of the buffer in it, in bytes
  uint64_t bytes = 0;       // of the buffer
  bool dedicated = false;   // the exporter allocated it for one resource
  /// Vulkan's memory type that it was exported with; unset: any that accepts it.
  std::optional<uint32_t> memory_type = std::nullopt;

  bool is_descriptor() const { return kind == Kind::OpaqueFd || kind == Kind::DmaBuf; }
};

}  // namespace reprise

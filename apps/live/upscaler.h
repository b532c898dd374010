// The model in the renderer's frame: Reprise works on the renderer's device, reads and writes its
// buffers in place, and is recorded into its command buffer.
#pragma once

#include <memory>
#include <vector>

#include "apps/live/gpu.h"

namespace live {

using reprise::Error;
using reprise::Result;

/// The model doubles width and height.
constexpr uint32_t kFactor = 2;

class Upscaler {
 public:
  /// The package must have an input uint8[height, width, 4] and an output of that kind.
  static Result<std::unique_ptr<Upscaler>> create(const Gpu& gpu, const reprise::Package& package,
                                                  uint32_t width, uint32_t height);

  /// Records a run on a picture whose layout is TransferSrcOptimal. That of the result is the same
  /// then. Call finish() when the device has executed the commands, before the next call.
  Error record(vk::CommandBuffer commands, const Image& picture);
  /// Returns what went wrong on the device.
  Error finish();
  const Image& result() const { return result_; }

  /// The bytes of the last run, when nothing is in flight.
  Result<std::vector<unsigned char>> input() const;
  Result<std::vector<unsigned char>> output() const;

 private:
  Upscaler(const Gpu& gpu, uint32_t width, uint32_t height);
  Error open(const Gpu& gpu, const reprise::Package& package);
  Error bind(const reprise::Package& package);

  uint32_t width_, height_;
  // In this order, because what follows uses what is before it.
  Buffer in_, out_;
  Image result_;
  reprise::Handle<reprise_device, reprise_device_free> device_;
  reprise::Handle<reprise_session, reprise_session_free> session_;
  reprise::Handle<reprise_buffer, reprise_buffer_free> borrowed_in_, borrowed_out_;
  reprise::Handle<reprise_run, reprise_run_free> run_;
  reprise_tensor bound_out_ = REPRISE_TENSOR_INIT;  // the run writes to it
};

}  // namespace live

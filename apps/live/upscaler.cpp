#include "apps/live/upscaler.h"

#include "apps/samples/device.h"

namespace live {
namespace {

Error error_of(const reprise_error& e) {
  return {e.status, e.message};
}

vk::DeviceSize bytes_of(uint32_t width, uint32_t height) {
  return vk::DeviceSize{width} * height * 4;
}

uint64_t handle_of(const Buffer& buffer) {
  return reinterpret_cast<uint64_t>(static_cast<VkBuffer>(*buffer.buffer));
}

Buffer make_shared(const Gpu& gpu, vk::DeviceSize bytes) {
  using Usage = vk::BufferUsageFlagBits;
  return make_buffer(gpu, bytes,
                     Usage::eStorageBuffer | Usage::eShaderDeviceAddress | Usage::eTransferSrc |
                         Usage::eTransferDst,
                     false);
}

Result<std::vector<unsigned char>> read_all(const reprise_buffer* buffer, vk::DeviceSize bytes) {
  std::vector<unsigned char> data(bytes);
  reprise_error e{};
  if (reprise_buffer_read(buffer, 0, data.data(), bytes, &e) != REPRISE_OK) return e;
  return data;
}

bool is_pixels(const reprise_slot& slot) {
  return slot.dtype == REPRISE_U8 && slot.rank == 3 && slot.dims[2] == 4;
}

}  // namespace

Upscaler::Upscaler(const Gpu& gpu, uint32_t width, uint32_t height)
    : width_(width),
      height_(height),
      in_(make_shared(gpu, bytes_of(width, height))),
      out_(make_shared(gpu, bytes_of(width * kFactor, height * kFactor))),
      result_(make_image(
          gpu, width * kFactor, height * kFactor,
          vk::ImageUsageFlagBits::eTransferDst | vk::ImageUsageFlagBits::eTransferSrc)) {}

Result<std::unique_ptr<Upscaler>> Upscaler::create(const Gpu& gpu, const reprise::Package& package,
                                                   uint32_t width, uint32_t height) {
  std::unique_ptr<Upscaler> made(new Upscaler(gpu, width, height));
  Error e = made->open(gpu, package);
  if (e.status == REPRISE_OK) e = made->bind(package);
  if (e.status != REPRISE_OK) return e;
  return made;
}

Error Upscaler::open(const Gpu& gpu, const reprise::Package& package) {
  reprise_error e{};
  const reprise_vulkan_device lent = gpu.lend();
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  const std::string cache = samples::cache_folder();
  options.vulkan = &lent;
  options.cache_dir = cache.empty() ? nullptr : cache.c_str();
  reprise_device* device = nullptr;
  if (reprise_device_open("vulkan", &options, &device, &e) != REPRISE_OK) return error_of(e);
  device_.reset(device);

  // Kernels are built now, so that no frame waits for the driver's compiler.
  reprise_session_options warm = REPRISE_SESSION_OPTIONS_INIT;
  warm.warm_up = 1;
  reprise_session* session = nullptr;
  if (reprise_session_create(package.get(), device, &warm, &session, &e) != REPRISE_OK)
    return error_of(e);
  session_.reset(session);

  reprise_buffer* buffer = nullptr;
  if (reprise_buffer_borrow(device, handle_of(in_), bytes_of(width_, height_), &buffer, &e) !=
      REPRISE_OK)
    return error_of(e);
  borrowed_in_.reset(buffer);
  const vk::DeviceSize out_bytes = bytes_of(result_.width, result_.height);
  if (reprise_buffer_borrow(device, handle_of(out_), out_bytes, &buffer, &e) != REPRISE_OK)
    return error_of(e);
  borrowed_out_.reset(buffer);
  reprise_run* run = nullptr;
  if (reprise_run_create(session, &run, &e) != REPRISE_OK) return error_of(e);
  run_.reset(run);
  return {};
}

Error Upscaler::bind(const reprise::Package& package) {
  reprise_error e{};
  reprise_slot in = REPRISE_SLOT_INIT, out = REPRISE_SLOT_INIT;
  if (reprise_package_input(package.get(), 0, &in, &e) != REPRISE_OK ||
      reprise_package_output(package.get(), 0, &out, &e) != REPRISE_OK)
    return error_of(e);
  if (!is_pixels(in) || !is_pixels(out)) {
    return {REPRISE_INVALID_MODEL,
            "the model takes " + std::string(in.shape) + " and returns " + out.shape +
                "; expected pixels, uint8[height, width, 4], and twice as many in each direction"};
  }
  reprise_tensor input = REPRISE_TENSOR_INIT;
  input.name = in.name;
  input.dtype = REPRISE_U8;
  input.rank = 3;
  input.dims[0] = height_;
  input.dims[1] = width_;
  input.dims[2] = 4;
  input.buffer = borrowed_in_.get();
  bound_out_.name = out.name;
  bound_out_.buffer = borrowed_out_.get();
  if (reprise_run_bind(run_.get(), &input, 1, &bound_out_, 1, &e) != REPRISE_OK) return error_of(e);
  return {};
}

Error Upscaler::record(vk::CommandBuffer commands, const Image& picture) {
  commands.copyImageToBuffer(*picture.image, vk::ImageLayout::eTransferSrcOptimal, *in_.buffer,
                             whole_picture(width_, height_));
  // The library puts a barrier before the run and another one behind it.
  reprise_record_options into = REPRISE_RECORD_OPTIONS_INIT;
  into.command_buffer = static_cast<VkCommandBuffer>(commands);
  reprise_error e{};
  if (reprise_run_record(run_.get(), &into, &e) != REPRISE_OK) return error_of(e);
  change_layout(commands, *result_.image, vk::ImageLayout::eUndefined,
                vk::ImageLayout::eTransferDstOptimal);
  commands.copyBufferToImage(*out_.buffer, *result_.image, vk::ImageLayout::eTransferDstOptimal,
                             whole_picture(result_.width, result_.height));
  change_layout(commands, *result_.image, vk::ImageLayout::eTransferDstOptimal,
                vk::ImageLayout::eTransferSrcOptimal);
  return {};
}

Error Upscaler::finish() {
  reprise_error e{};
  if (reprise_run_wait(run_.get(), nullptr, nullptr, &e) != REPRISE_OK) return error_of(e);
  if (bound_out_.dims[0] != result_.height || bound_out_.dims[1] != result_.width)
    return {REPRISE_INVALID_MODEL, "the model does not double the width and height of pictures"};
  return {};
}

Result<std::vector<unsigned char>> Upscaler::input() const {
  return read_all(borrowed_in_.get(), bytes_of(width_, height_));
}

Result<std::vector<unsigned char>> Upscaler::output() const {
  return read_all(borrowed_out_.get(), bytes_of(result_.width, result_.height));
}

}  // namespace live

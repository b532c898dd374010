#include "apps/live/canvas.h"

#include <algorithm>
#include <cstring>

namespace live {
namespace {

constexpr uint32_t kPanelColumns = 34, kPanelLines = 3;  // in characters
const std::string kLabels[] = {"left: texture filter", "right: model"};

/// The part of a picture right of `from`, a fraction of its width, as a region of a blit.
std::array<vk::Offset3D, 2> right_of(const Image& image, float from) {
  return {vk::Offset3D(static_cast<int>(from * static_cast<float>(image.width)), 0, 0),
          vk::Offset3D(static_cast<int>(image.width), static_cast<int>(image.height), 1)};
}

void enlarge(vk::CommandBuffer commands, const Image& from, const Image& to, float begin) {
  const vk::ImageBlit region(colour_layer(), right_of(from, begin), colour_layer(),
                             right_of(to, begin));
  commands.blitImage(*from.image, vk::ImageLayout::eTransferSrcOptimal, *to.image,
                     vk::ImageLayout::eTransferDstOptimal, region, vk::Filter::eLinear);
}

uint32_t text_scale(uint32_t width) {
  return std::max(1U, width / 600);
}

Pixels label_of(const std::string& text, uint32_t scale) {
  Pixels label(static_cast<uint32_t>(text.size()), 1, scale);
  label.write(text, 0);
  return label;
}

}  // namespace

Canvas::Canvas(const Gpu& gpu, uint32_t width, uint32_t height)
    : image_(
          make_image(gpu, width, height,
                     vk::ImageUsageFlagBits::eTransferDst | vk::ImageUsageFlagBits::eTransferSrc)) {
  const uint32_t scale = text_scale(width);
  vk::DeviceSize bytes = Pixels(kPanelColumns, kPanelLines, scale).bytes().size();
  for (const std::string& label : kLabels) bytes += label_of(label, scale).bytes().size();
  bytes += Pixels::filled(scale, height).bytes().size();
  text_ = make_buffer(gpu, bytes, vk::BufferUsageFlagBits::eTransferSrc, true);
}

void Canvas::record(vk::CommandBuffer commands, const Image& picture, const Image* better,
                    const std::vector<std::string>& lines) {
  using Layout = vk::ImageLayout;
  change_layout(commands, *image_.image, Layout::eUndefined, Layout::eTransferDstOptimal);
  enlarge(commands, picture, image_, 0);
  if (better) {
    change_layout(commands, *image_.image, Layout::eTransferDstOptimal,
                  Layout::eTransferDstOptimal);
    enlarge(commands, *better, image_, 0.5F);
  }
  Pixels panel(kPanelColumns, kPanelLines, text_scale(image_.width));
  for (uint32_t i = 0; i < std::min<size_t>(lines.size(), kPanelLines); ++i)
    panel.write(lines[i], i);
  change_layout(commands, *image_.image, Layout::eTransferDstOptimal, Layout::eTransferDstOptimal);
  const vk::DeviceSize used = show(commands, panel, 0, 0, 0);
  if (better && panel.width() <= image_.width / 2) label_halves(commands, panel.height(), used);
  change_layout(commands, *image_.image, Layout::eTransferDstOptimal, Layout::eTransferSrcOptimal);
}

vk::DeviceSize Canvas::show(vk::CommandBuffer commands, const Pixels& pixels, uint32_t x,
                            uint32_t y, vk::DeviceSize from) {
  if (x + pixels.width() > image_.width || y + pixels.height() > image_.height) return from;
  std::memcpy(static_cast<std::byte*>(text_.mapped) + from, pixels.bytes().data(),
              pixels.bytes().size());
  vk::BufferImageCopy region = whole_picture(pixels.width(), pixels.height());
  region.bufferOffset = from;
  region.imageOffset = vk::Offset3D(static_cast<int>(x), static_cast<int>(y), 0);
  commands.copyBufferToImage(*text_.buffer, *image_.image, vk::ImageLayout::eTransferDstOptimal,
                             region);
  return from + pixels.bytes().size();
}

void Canvas::label_halves(vk::CommandBuffer commands, uint32_t y, vk::DeviceSize from) {
  const uint32_t scale = text_scale(image_.width), middle = image_.width / 2;
  const Pixels left = label_of(kLabels[0], scale), right = label_of(kLabels[1], scale);
  from = show(commands, left, 0, y, from);
  from = show(commands, right, middle + scale, y, from);
  show(commands, Pixels::filled(scale, image_.height), middle, 0, from);
}

std::vector<unsigned char> Canvas::read(const Gpu& gpu) const {
  const vk::DeviceSize bytes = vk::DeviceSize{image_.width} * image_.height * 4;
  const Buffer host = make_buffer(gpu, bytes, vk::BufferUsageFlagBits::eTransferDst, true);
  const auto pool = gpu.device().createCommandPoolUnique({{}, gpu.family()});
  const auto commands = std::move(
      gpu.device().allocateCommandBuffersUnique({*pool, vk::CommandBufferLevel::ePrimary, 1})[0]);
  commands->begin({vk::CommandBufferUsageFlagBits::eOneTimeSubmit});
  commands->copyImageToBuffer(*image_.image, vk::ImageLayout::eTransferSrcOptimal, *host.buffer,
                              whole_picture(image_.width, image_.height));
  const vk::MemoryBarrier to_host(vk::AccessFlagBits::eTransferWrite,
                                  vk::AccessFlagBits::eHostRead);
  commands->pipelineBarrier(vk::PipelineStageFlagBits::eTransfer, vk::PipelineStageFlagBits::eHost,
                            {}, to_host, {}, {});
  commands->end();
  gpu.queue().submit(vk::SubmitInfo({}, {}, *commands));
  gpu.queue().waitIdle();
  const auto* data = static_cast<const unsigned char*>(host.mapped);
  return {data, data + bytes};
}

}  // namespace live

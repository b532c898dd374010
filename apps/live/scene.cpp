#include "apps/live/scene.h"

#include "scene_frag.h"
#include "scene_vert.h"

namespace live {
namespace {

struct PushConstants {
  float width, height, time;
};

}  // namespace

Scene::Scene(const Gpu& gpu, uint32_t width, uint32_t height) {
  image_ =
      make_image(gpu, width, height,
                 vk::ImageUsageFlagBits::eColorAttachment | vk::ImageUsageFlagBits::eTransferSrc);
  view_ = gpu.device().createImageViewUnique({{},
                                              *image_.image,
                                              vk::ImageViewType::e2D,
                                              vk::Format::eR8G8B8A8Unorm,
                                              {},
                                              {vk::ImageAspectFlagBits::eColor, 0, 1, 0, 1}});
  create_pass(gpu);
  framebuffer_ = gpu.device().createFramebufferUnique({{}, *pass_, *view_, width, height, 1});
  create_pipeline(gpu);
}

void Scene::create_pass(const Gpu& gpu) {
  const vk::AttachmentDescription picture(
      {}, vk::Format::eR8G8B8A8Unorm, vk::SampleCountFlagBits::e1, vk::AttachmentLoadOp::eDontCare,
      vk::AttachmentStoreOp::eStore, vk::AttachmentLoadOp::eDontCare,
      vk::AttachmentStoreOp::eDontCare, vk::ImageLayout::eUndefined,
      vk::ImageLayout::eTransferSrcOptimal);
  const vk::AttachmentReference colour(0, vk::ImageLayout::eColorAttachmentOptimal);
  const vk::SubpassDescription subpass({}, vk::PipelineBindPoint::eGraphics, {}, colour);
  // The picture before may still be read, and this one will be.
  using Stage = vk::PipelineStageFlagBits;
  using Access = vk::AccessFlagBits;
  const vk::SubpassDependency order[] = {
      {VK_SUBPASS_EXTERNAL, 0, Stage::eTransfer, Stage::eColorAttachmentOutput,
       Access::eTransferRead, Access::eColorAttachmentWrite},
      {0, VK_SUBPASS_EXTERNAL, Stage::eColorAttachmentOutput, Stage::eTransfer,
       Access::eColorAttachmentWrite, Access::eTransferRead}};
  pass_ = gpu.device().createRenderPassUnique({{}, picture, subpass, order});
}

void Scene::create_pipeline(const Gpu& gpu) {
  const vk::Device device = gpu.device();
  const vk::PushConstantRange constants(vk::ShaderStageFlagBits::eFragment, 0,
                                        sizeof(PushConstants));
  layout_ = device.createPipelineLayoutUnique({{}, {}, constants});
  const auto vertex = device.createShaderModuleUnique({{}, sizeof kSceneVert, kSceneVert});
  const auto fragment = device.createShaderModuleUnique({{}, sizeof kSceneFrag, kSceneFrag});
  const vk::PipelineShaderStageCreateInfo stages[] = {
      {{}, vk::ShaderStageFlagBits::eVertex, *vertex, "main"},
      {{}, vk::ShaderStageFlagBits::eFragment, *fragment, "main"}};
  const vk::PipelineVertexInputStateCreateInfo no_vertices;
  const vk::PipelineInputAssemblyStateCreateInfo triangles({},
                                                           vk::PrimitiveTopology::eTriangleList);
  const float width = static_cast<float>(image_.width), height = static_cast<float>(image_.height);
  const vk::Viewport viewport(0, 0, width, height, 0, 1);
  const vk::Rect2D scissor({}, {image_.width, image_.height});
  const vk::PipelineViewportStateCreateInfo view({}, viewport, scissor);
  vk::PipelineRasterizationStateCreateInfo raster;
  raster.lineWidth = 1;
  const vk::PipelineMultisampleStateCreateInfo one_sample;
  vk::PipelineColorBlendAttachmentState write;
  write.colorWriteMask = vk::ColorComponentFlags(0xF);
  const vk::PipelineColorBlendStateCreateInfo blend({}, VK_FALSE, vk::LogicOp::eClear, write);
  const vk::GraphicsPipelineCreateInfo info({}, stages, &no_vertices, &triangles, nullptr, &view,
                                            &raster, &one_sample, nullptr, &blend, nullptr,
                                            *layout_, *pass_);
  pipeline_ = device.createGraphicsPipelineUnique({}, info).value;
}

void Scene::record(vk::CommandBuffer commands, float time) const {
  const PushConstants constants{static_cast<float>(image_.width), static_cast<float>(image_.height),
                                time};
  commands.beginRenderPass({*pass_, *framebuffer_, {{}, {image_.width, image_.height}}},
                           vk::SubpassContents::eInline);
  commands.bindPipeline(vk::PipelineBindPoint::eGraphics, *pipeline_);
  commands.pushConstants<PushConstants>(*layout_, vk::ShaderStageFlagBits::eFragment, 0, constants);
  commands.draw(3, 1, 0, 0);
  commands.endRenderPass();
}

}  // namespace live

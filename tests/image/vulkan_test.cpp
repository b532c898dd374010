// Images of an application's Vulkan device, through the C interface and its C++ layer: no header of
// the library's inside is included here.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "application.h"
#include "packages.h"
#include "reprise/reprise.hpp"

namespace reprise::test {
namespace {

// Numbers of Vulkan's interface.
constexpr uint32_t kR8 = 9, kRg8 = 16, kRgba8 = 37, kRgba8Srgb = 43, kBgra8 = 44, kRgba16F = 97;
constexpr uint32_t kNv12 = 1000156003;
constexpr uint32_t kUndefined = 0, kGeneral = 1, kShaderRead = 5, kTransferSource = 6,
                   kTransferTarget = 7;
constexpr uint32_t kSource = 1, kTarget = 2;        // usage
constexpr uint32_t kPlane0 = 0x10, kPlane1 = 0x20;  // aspects

class ImagesOnVulkan : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    app = std::make_unique<Application>(GetParam());
    reprise_vulkan_device lent = this->lent();
    reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
    options.vulkan = &lent;
    auto opened = Device::open("vulkan", &options);
    ASSERT_TRUE(opened) << opened.error().message;
    device = std::make_unique<Device>(std::move(*opened));
    auto on_host = Device::open("host");
    ASSERT_TRUE(on_host) << on_host.error().message;
    host = std::make_unique<Device>(std::move(*on_host));
  }
  void TearDown() override {
    device.reset();
    app.reset();
  }

  reprise_vulkan_device lent() const {
    const Application::Handles h = app->handles();
    reprise_vulkan_device lent = REPRISE_VULKAN_DEVICE_INIT;
    lent.instance = h.instance;
    lent.physical_device = h.physical_device;
    lent.device = h.device;
    lent.queue = h.queue;
    lent.queue_family = h.queue_family;
    return lent;
  }
  std::unique_ptr<Session> session(const Package& package, const Device& on) {
    auto s = Session::create(package, on);
    EXPECT_TRUE(s) << s.error().message;
    return s ? std::make_unique<Session>(std::move(*s)) : nullptr;
  }
  /// The scores of the host, which gets the pixels as bytes.
  std::vector<float> scores_on_host(const Package& package, const std::vector<uint8_t>& bytes,
                                    const std::vector<int64_t>& dims, reprise_dtype dtype) {
    const auto s = session(package, *host);
    reprise_tensor x = REPRISE_TENSOR_INIT;
    x.name = "x";
    x.dtype = dtype;
    x.rank = static_cast<uint32_t>(dims.size());
    std::copy(dims.begin(), dims.end(), x.dims);
    x.data = const_cast<uint8_t*>(bytes.data());
    x.bytes = bytes.size();
    std::vector<float> scores(4);
    reprise_tensor y = Tensor("scores", scores.data(), {1, 4}).raw();
    reprise_error e{};
    EXPECT_EQ(reprise_session_run(s->get(), &x, 1, &y, 1, nullptr, nullptr, &e), REPRISE_OK)
        << e.message;
    return scores;
  }
  /// An image of the application with these pixels.
  reprise_vulkan_image image_of(uint32_t format, uint32_t width, uint32_t height,
                                uint32_t bytes_per_pixel, const std::vector<uint8_t>& bytes,
                                uint32_t layout = kShaderRead) {
    reprise_vulkan_image image = REPRISE_VULKAN_IMAGE_INIT;
    image.usage = kSource | kTarget;
    image.format = format;
    image.width = width;
    image.height = height;
    image.layout = layout;
    image.image = app->make_image(format, width, height, image.usage | 4);
    app->write(image.image, {{1, width, height, bytes_per_pixel}}, bytes, layout);
    return image;
  }
  static reprise_session_info info(const Session& s) {
    reprise_session_info i = REPRISE_SESSION_INFO_INIT;
    EXPECT_EQ(reprise_session_get_info(s.get(), &i, nullptr), REPRISE_OK);
    return i;
  }

  std::unique_ptr<Application> app;
  std::unique_ptr<Device> device, host;
};

/// One run with an image, and its scores.
std::vector<float> scores_of(Session& s, const reprise_vulkan_image& image) {
  std::vector<float> scores(4, -1);
  reprise_tensor x = Tensor("x", image).raw();
  reprise_tensor y = Tensor("scores", scores.data(), {1, 4}).raw();
  reprise_error e{};
  EXPECT_EQ(reprise_session_run(s.get(), &x, 1, &y, 1, nullptr, nullptr, &e), REPRISE_OK)
      << e.message;
  return scores;
}

TEST_P(ImagesOnVulkan, ScoresAreThoseOfTheHost) {
  struct Format {
    const char* option;
    uint32_t number, bytes;
    int64_t channels;
    reprise_dtype dtype = REPRISE_U8;
  };
  const Format formats[] = {{"x=rgba8,resize=bilinear,scale=255,mean=128", kRgba8, 4, 4},
                            {"x=rgba8,resize=bilinear,scale=255,mean=128", kRgba8Srgb, 4, 4},
                            {"x=bgra8,resize=nearest,scale=255,mean=128", kBgra8, 4, 4},
                            {"x=rgba16f,resize=bilinear", kRgba16F, 8, 4, REPRISE_F16},
                            {"x=r8,resize=bilinear,scale=255,mean=128", kR8, 1, 1}};
  for (const Format& f : formats) {
    SCOPED_TRACE(f.option);
    const Package package(classifier_package({f.option}));
    const auto s = session(package, *device);
    ASSERT_TRUE(s);
    std::vector<uint8_t> bytes = image_bytes(16 * 12 * f.bytes);
    if (f.dtype == REPRISE_F16) {  // small integers, whose sums are exact
      for (size_t i = 0; i < bytes.size(); i += 2) {
        bytes[i] = 0;
        bytes[i + 1] = static_cast<uint8_t>(0x3c + 4 * (bytes[i + 1] % 3));
      }
    }
    const reprise_vulkan_image image = image_of(f.number, 16, 12, f.bytes, bytes);
    const std::vector<float> right = scores_on_host(package, bytes, {12, 16, f.channels}, f.dtype);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(scores_of(*s, image), right);
    const reprise_session_info i = info(*s);
    EXPECT_EQ(i.submits, 2U);  // the copy is a part of the submission
    EXPECT_EQ(i.recordings, 1U);
    EXPECT_EQ(i.dispatches, 2 * launches_without_image());
    // The image keeps its layout: reading it with another one would be reported.
    EXPECT_EQ(app->read(image.image, {1, 16, 12, f.bytes}, kShaderRead), bytes);
  }
}

TEST_P(ImagesOnVulkan, Nv12AsOneImageOrTwo) {
  const Package package(classifier_package({"x=nv12,resize=bilinear,scale=255,mean=128"}));
  const auto s = session(package, *device);
  ASSERT_TRUE(s);
  const std::vector<uint8_t> bytes = image_bytes(20 * 14 * 3 / 2);
  const std::vector<float> right = scores_on_host(package, bytes, {21, 20}, REPRISE_U8);
  const auto near = [&](const std::vector<float>& scores) {
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(scores[i], right[i], 1e-5F * (std::abs(right[i]) + 100));
  };
  reprise_vulkan_image two = REPRISE_VULKAN_IMAGE_INIT;
  two.format = kR8;
  two.usage = kSource;
  two.width = 20;
  two.height = 14;
  two.layout = kGeneral;
  two.image = app->make_image(kR8, 20, 14, kSource | kTarget);
  two.second = app->make_image(kRg8, 10, 7, kSource | kTarget);
  app->write(two.image, {{1, 20, 14, 1}}, {bytes.begin(), bytes.begin() + 280}, kGeneral);
  app->write(two.second, {{1, 10, 7, 2}}, {bytes.begin() + 280, bytes.end()}, kGeneral);
  near(scores_of(*s, two));
  if (!app->supports(kNv12))
    GTEST_SKIP() << "the device has no images in G8_B8R8_2PLANE_420_UNORM; two images were tested";
  reprise_vulkan_image one = two;
  one.second = 0;
  one.format = kNv12;
  one.image = app->make_image(kNv12, 20, 14, kSource | kTarget);
  app->write(one.image, {{kPlane0, 20, 14, 1}, {kPlane1, 10, 7, 2}}, bytes, kGeneral);
  near(scores_of(*s, one));
}

TEST_P(ImagesOnVulkan, AnImageComesOut) {
  const Package package(filter_package({"x=rgba8", "y=bgra8"}, 8, 6));
  const auto s = session(package, *device);
  ASSERT_TRUE(s);
  std::vector<uint8_t> bytes = image_bytes(8 * 6 * 4);
  for (size_t i = 3; i < bytes.size(); i += 4) bytes[i] = 255;
  const reprise_vulkan_image in = image_of(kRgba8, 8, 6, 4, bytes);
  reprise_vulkan_image out = REPRISE_VULKAN_IMAGE_INIT;
  out.format = kBgra8;
  out.usage = kTarget;
  out.width = 8;
  out.height = 6;
  out.layout = kUndefined;
  out.final_layout = kGeneral;
  out.image = app->make_image(kBgra8, 8, 6, kSource | kTarget);
  reprise_tensor x = Tensor("x", in).raw(), y = Tensor("y", out).raw();
  reprise_error e{};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(reprise_session_run(s->get(), &x, 1, &y, 1, nullptr, nullptr, &e), REPRISE_OK)
        << e.message;
    EXPECT_EQ(y.rank, 3U);
    EXPECT_EQ(y.dims[1], 8);
    const std::vector<uint8_t> got = app->read(out.image, {1, 8, 6, 4}, kGeneral);
    for (size_t p = 0; p < 48; ++p) {
      for (size_t c = 0; c < 3; ++c) ASSERT_EQ(got[4 * p + c], 255 - bytes[4 * p + 2 - c]);
      ASSERT_EQ(got[4 * p + 3], 255);
    }
  }
  EXPECT_EQ(info(*s).submits, 2U);
}

TEST_P(ImagesOnVulkan, Nv12ComesOutAsOneImageOrTwo) {
  const Package package(filter_package({"x=rgba8", "y=nv12"}, 8, 6));
  const std::vector<uint8_t> bytes = image_bytes(8 * 6 * 4);
  const auto on_host = Device::open("host");
  ASSERT_TRUE(on_host);
  auto reference = Session::create(package, *on_host);
  ASSERT_TRUE(reference) << reference.error().message;
  const auto right = reference->run({{"x", bytes.data(), {6, 8, 4}}});
  ASSERT_TRUE(right) << right.error().message;
  const std::vector<uint8_t> planes = (*right)[0].as<uint8_t>();
  ASSERT_EQ(planes.size(), 72U);

  const auto s = session(package, *device);
  ASSERT_TRUE(s);
  const reprise_vulkan_image in = image_of(kRgba8, 8, 6, 4, bytes);
  reprise_vulkan_image two = REPRISE_VULKAN_IMAGE_INIT;
  two.format = kR8;
  two.usage = kTarget;
  two.width = 8;
  two.height = 6;
  two.layout = kUndefined;
  two.final_layout = kGeneral;
  two.image = app->make_image(kR8, 8, 6, kSource | kTarget);
  two.second = app->make_image(kRg8, 4, 3, kSource | kTarget);
  const reprise_tensor x = Tensor("x", in).raw();
  reprise_error e{};
  const auto run = [&](const reprise_vulkan_image& out) {
    reprise_tensor y = Tensor("y", out).raw();
    return reprise_session_run(s->get(), &x, 1, &y, 1, nullptr, nullptr, &e);
  };
  ASSERT_EQ(run(two), REPRISE_OK) << e.message;
  std::vector<uint8_t> got = app->read(two.image, {1, 8, 6, 1}, kGeneral);
  const std::vector<uint8_t> colors = app->read(two.second, {1, 4, 3, 2}, kGeneral);
  got.insert(got.end(), colors.begin(), colors.end());
  EXPECT_EQ(got, planes);
  reprise_vulkan_image small = two;
  small.height = 4;
  EXPECT_EQ(run(small), REPRISE_INVALID_INPUT);
  EXPECT_NE(std::string(e.message).find("8 x 6 pixels"), std::string::npos) << e.message;
  if (!app->supports(kNv12))
    GTEST_SKIP() << "the device has no images in G8_B8R8_2PLANE_420_UNORM; two images were tested";
  reprise_vulkan_image one = two;
  one.second = 0;
  one.format = kNv12;
  one.image = app->make_image(kNv12, 8, 6, kSource | kTarget);
  ASSERT_EQ(run(one), REPRISE_OK) << e.message;
  got = app->read(one.image, {kPlane0, 8, 6, 1}, kGeneral);
  const std::vector<uint8_t> second = app->read(one.image, {kPlane1, 4, 3, 2}, kTransferSource);
  got.insert(got.end(), second.begin(), second.end());
  EXPECT_EQ(got, planes);
}

TEST_P(ImagesOnVulkan, InputsAndOutputsMayBeOneImage) {
  const Package package(difference_package({"a=rgba8", "b=rgba8", "y=rgba8"}, 8, 6));
  const auto s = session(package, *device);
  ASSERT_TRUE(s);
  const reprise_vulkan_image image = image_of(kRgba8, 8, 6, 4, image_bytes(8 * 6 * 4), kGeneral);
  const auto run = [&](reprise_vulkan_image a, reprise_vulkan_image b, reprise_vulkan_image y) {
    const std::array<reprise_tensor, 2> in = {Tensor("a", a).raw(), Tensor("b", b).raw()};
    reprise_tensor out = Tensor("y", y).raw();
    reprise_error e{};
    const reprise_status status =
        reprise_session_run(s->get(), in.data(), in.size(), &out, 1, nullptr, nullptr, &e);
    EXPECT_EQ(status == REPRISE_OK, e.message[0] == '\0') << e.message;
    return std::pair(status, std::string(e.message));
  };
  const auto refused = [&](const auto& result, const char* part) {
    EXPECT_EQ(result.first, REPRISE_INVALID_INPUT);
    EXPECT_NE(result.second.find(part), std::string::npos) << result.second;
  };
  reprise_vulkan_image read = image, written = image;
  read.final_layout = kShaderRead;
  refused(run(image, read, image), "state them alike");
  refused(run(read, read, image), "number 5");
  written.acquire_from = 0;
  refused(run(image, image, written), "acquire");
  // The difference of an image and itself, written to the image.
  written = image;
  written.layout = kUndefined;
  written.final_layout = kGeneral;
  for (const reprise_vulkan_image& y : {image, written}) {
    app->write(image.image, {{1, 8, 6, 4}}, image_bytes(8 * 6 * 4), kGeneral);
    ASSERT_EQ(run(image, image, y).first, REPRISE_OK);
    std::vector<uint8_t> black(8 * 6 * 4);
    for (size_t i = 3; i < black.size(); i += 4) black[i] = 255;
    EXPECT_EQ(app->read(image.image, {1, 8, 6, 4}, kGeneral), black);
  }
}

TEST_P(ImagesOnVulkan, ARunIsBoundToImagesOfManySizes) {
  const Package package(classifier_package({"x=rgba8,resize=bilinear,scale=255,mean=128"}));
  const auto s = session(package, *device);
  ASSERT_TRUE(s);
  auto made = api::Run::create(*s);
  ASSERT_TRUE(made) << made.error().message;
  api::Run& run = *made;
  std::vector<float> scores(4);
  for (const auto& [width, height] :
       {std::pair<uint32_t, uint32_t>{16, 16}, {32, 8}, {8, 8}, {16, 16}}) {
    const std::vector<uint8_t> bytes = image_bytes(size_t{width} * height * 4);
    const reprise_vulkan_image image = image_of(kRgba8, width, height, 4, bytes);
    const Error bound = run.bind({Tensor("x", image)}, {Tensor("scores", scores.data(), {1, 4})});
    ASSERT_EQ(bound.status, REPRISE_OK) << bound.message;
    for (int i = 0; i < 2; ++i) {
      scores.assign(4, -1);
      const Error submitted = run.submit();
      ASSERT_EQ(submitted.status, REPRISE_OK) << submitted.message;
      const Error ended = run.wait_only();
      ASSERT_EQ(ended.status, REPRISE_OK) << ended.message;
      EXPECT_EQ(scores, scores_on_host(package, bytes, {height, width, 4}, REPRISE_U8));
    }
  }
  EXPECT_EQ(info(*s).recordings, 1U);  // the plan is recorded once, whatever the image
  EXPECT_EQ(info(*s).submits, 8U);
}

TEST_P(ImagesOnVulkan, ARunIsRecordedBetweenTheApplicationsCommands) {
  const Package package(filter_package({"x=rgba8", "y=rgba8"}, 16, 8));
  const auto s = session(package, *device);
  ASSERT_TRUE(s);
  const auto make = [&](uint32_t layout, uint32_t final_layout) {
    reprise_vulkan_image image = REPRISE_VULKAN_IMAGE_INIT;
    image.format = kRgba8;
    image.usage = kSource | kTarget;
    image.width = 16;
    image.height = 8;
    image.layout = layout;
    image.final_layout = final_layout;
    image.image = app->make_image(kRgba8, 16, 8, kSource | kTarget | 4);
    return image;
  };
  // The application clears the image, and samples the result afterwards.
  const reprise_vulkan_image in = make(kTransferTarget, kShaderRead);
  const reprise_vulkan_image out = make(kUndefined, kTransferSource);
  const reprise_tensor x = Tensor("x", in).raw();
  reprise_tensor y = Tensor("y", out).raw();
  reprise_run* run = nullptr;
  reprise_error e{};
  ASSERT_EQ(reprise_run_create(s->get(), &run, &e), REPRISE_OK) << e.message;
  const Handle<reprise_run, reprise_run_free> held(run);
  ASSERT_EQ(reprise_run_bind(run, &x, 1, &y, 1, &e), REPRISE_OK) << e.message;
  for (const int value : {51, 204}) {
    app->execute(
        [&](void* commands) {
          app->clear(commands, in.image, kUndefined, static_cast<float>(value) / 255);
          reprise_record_options into = REPRISE_RECORD_OPTIONS_INIT;
          into.command_buffer = commands;
          ASSERT_EQ(reprise_run_record(run, &into, &e), REPRISE_OK) << e.message;
        },
        2);
    ASSERT_EQ(reprise_run_wait(run, nullptr, nullptr, &e), REPRISE_OK) << e.message;
    const std::vector<uint8_t> got = app->read(out.image, {1, 16, 8, 4}, kTransferSource);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i % 4 == 3 ? 255 : 255 - value) << i;
  }
  EXPECT_EQ(info(*s).submits, 0U);
}

TEST_P(ImagesOnVulkan, AnImageMayBeReplacedByOneWithTheSameHandle) {
  const Package package(classifier_package({"x=r8,resize=bilinear,scale=255,mean=128"}));
  const auto s = session(package, *device);
  ASSERT_TRUE(s);
  for (const size_t skip : {0, 7, 19}) {
    std::vector<uint8_t> bytes = image_bytes(16 * 8 + skip);
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(skip));
    const reprise_vulkan_image image = image_of(kR8, 16, 8, 1, bytes);
    EXPECT_EQ(scores_of(*s, image), scores_on_host(package, bytes, {8, 16, 1}, REPRISE_U8));
    app->destroy_images();  // a command buffer that still names it would be reported
  }
}

TEST_P(ImagesOnVulkan, MipLevelsAndLayers) {
  const Package package(classifier_package({"x=rgba8,resize=bilinear,scale=255,mean=128"}));
  const auto s = session(package, *device);
  ASSERT_TRUE(s);
  const std::vector<uint8_t> bytes = image_bytes(16 * 8 * 4);
  reprise_vulkan_image image = REPRISE_VULKAN_IMAGE_INIT;
  image.format = kRgba8;
  image.usage = kSource;
  image.image = app->make_image(kRgba8, 32, 16, kSource | kTarget, 3, 2);
  image.width = 16;
  image.height = 8;
  image.mip_level = 1;
  image.array_layer = 1;
  image.layout = kTransferSource;
  app->write(image.image, {{1, 16, 8, 4}}, bytes, kTransferSource, 1, 1);
  EXPECT_EQ(scores_of(*s, image), scores_on_host(package, bytes, {8, 16, 4}, REPRISE_U8));
}

/// Rows with a pitch, in host memory and in a buffer of the application.
TEST_P(ImagesOnVulkan, RowsWithAPitch) {
  const Package package(classifier_package({"x=rgba8,resize=bilinear,scale=255,mean=128"}));
  const std::vector<uint8_t> dense = image_bytes(16 * 8 * 4);
  std::vector<uint8_t> pitched(8 * 80, 0xaa);
  for (size_t r = 0; r < 8; ++r)
    std::copy_n(dense.begin() + static_cast<std::ptrdiff_t>(r * 64), 64,
                pitched.begin() + static_cast<std::ptrdiff_t>(r * 80));
  const std::vector<float> right = scores_on_host(package, dense, {8, 16, 4}, REPRISE_U8);
  reprise_error e{};
  reprise_buffer* buffer = nullptr;
  ASSERT_EQ(
      reprise_buffer_borrow(device->get(), app->make_buffer(pitched), pitched.size(), &buffer, &e),
      REPRISE_OK)
      << e.message;
  const Handle<reprise_buffer, reprise_buffer_free> held(buffer);
  for (const Device* on : {device.get(), host.get()}) {
    const auto s = session(package, *on);
    ASSERT_TRUE(s);
    std::vector<float> scores(4);
    reprise_tensor y = Tensor("scores", scores.data(), {1, 4}).raw();
    reprise_tensor x = Tensor("x", pitched.data(), {8, 16, 4}).row_pitch(80).raw();
    ASSERT_EQ(reprise_session_run(s->get(), &x, 1, &y, 1, nullptr, nullptr, &e), REPRISE_OK)
        << e.message;
    EXPECT_EQ(scores, right);
    x.row_pitch = 63;
    EXPECT_EQ(reprise_session_run(s->get(), &x, 1, &y, 1, nullptr, nullptr, &e),
              REPRISE_INVALID_INPUT);
    if (on == host.get()) continue;
    x = REPRISE_TENSOR_INIT;
    x.name = "x";
    x.dtype = REPRISE_U8;
    x.rank = 3;
    x.dims[0] = 8;
    x.dims[1] = 16;
    x.dims[2] = 4;
    x.buffer = buffer;
    x.row_pitch = 80;
    scores.assign(4, -1);
    ASSERT_EQ(reprise_session_run(s->get(), &x, 1, &y, 1, nullptr, nullptr, &e), REPRISE_OK)
        << e.message;
    EXPECT_EQ(scores, right);
    x.dims[0] = 9;  // beyond the buffer
    EXPECT_EQ(reprise_session_run(s->get(), &x, 1, &y, 1, nullptr, nullptr, &e),
              REPRISE_INVALID_INPUT);
  }
}

TEST_P(ImagesOnVulkan, OutputsWithAPitch) {
  const Package package(filter_package({"x=rgba8", "y=rgba8"}, 8, 6));
  const std::vector<uint8_t> bytes = image_bytes(8 * 6 * 4);
  const uint64_t memory = app->make_buffer(std::vector<uint8_t>(6 * 48, 7));
  reprise_error e{};
  reprise_buffer* buffer = nullptr;
  ASSERT_EQ(reprise_buffer_borrow(device->get(), memory, 6 * 48, &buffer, &e), REPRISE_OK);
  const Handle<reprise_buffer, reprise_buffer_free> held(buffer);
  const auto check = [&](const std::vector<uint8_t>& rows) {
    for (size_t r = 0; r < 6; ++r) {
      for (size_t i = 0; i < 48; ++i) {
        const int right = i >= 32 ? 7 : i % 4 == 3 ? 255 : 255 - bytes[r * 32 + i];
        ASSERT_EQ(rows[r * 48 + i], right) << r << ", " << i;
      }
    }
  };
  const reprise_tensor x = Tensor("x", bytes.data(), {6, 8, 4}).raw();
  for (const Device* on : {device.get(), host.get()}) {
    const auto s = session(package, *on);
    ASSERT_TRUE(s);
    std::vector<uint8_t> rows(6 * 48, 7);
    reprise_tensor y = REPRISE_TENSOR_INIT;
    y.name = "y";
    y.data = rows.data();
    y.bytes = rows.size();
    y.row_pitch = 48;
    ASSERT_EQ(reprise_session_run(s->get(), &x, 1, &y, 1, nullptr, nullptr, &e), REPRISE_OK)
        << e.message;
    check(rows);
    if (on == host.get()) continue;
    y.data = nullptr;
    y.bytes = 0;
    y.buffer = buffer;
    ASSERT_EQ(reprise_session_run(s->get(), &x, 1, &y, 1, nullptr, nullptr, &e), REPRISE_OK)
        << e.message;
    check(app->read_buffer(memory, 6 * 48));
  }
}

TEST_P(ImagesOnVulkan, MistakesAreNamed) {
  const Package package(filter_package({"x=rgba8", "y=rgba8"}, 8, 6));
  const Package plain(filter_package({}, 8, 6));
  const auto s = session(package, *device), tensors = session(plain, *device),
             on_host = session(package, *host);
  ASSERT_TRUE(s && tensors && on_host);
  const std::vector<uint8_t> bytes = image_bytes(8 * 6 * 4);
  const reprise_vulkan_image good = image_of(kRgba8, 8, 6, 4, bytes);
  reprise_vulkan_image target = good;
  target.image = app->make_image(kRgba8, 8, 6, kSource | kTarget);
  target.layout = kUndefined;
  target.final_layout = kGeneral;
  const auto refused = [&](Session& in, reprise_vulkan_image x, reprise_vulkan_image y,
                           reprise_status status, const char* part) {
    reprise_tensor input = Tensor("x", x).raw(), output = Tensor("y", y).raw();
    reprise_error e{};
    EXPECT_EQ(reprise_session_run(in.get(), &input, 1, &output, 1, nullptr, nullptr, &e), status)
        << e.message;
    EXPECT_NE(std::string(e.message).find(part), std::string::npos) << e.message;
  };
  const auto with = [](reprise_vulkan_image image, auto member, auto value) {
    image.*member = value;
    return image;
  };
  using I = reprise_vulkan_image;
  refused(*s, with(good, &I::format, kBgra8), target, REPRISE_INVALID_INPUT, "B8G8R8A8");
  refused(*s, with(good, &I::format, 12345U), target, REPRISE_INVALID_INPUT, "12345");
  refused(*s, with(good, &I::usage, kTarget), target, REPRISE_USAGE, "TRANSFER_SRC");
  refused(*s, good, with(target, &I::usage, kSource), REPRISE_USAGE, "TRANSFER_DST");
  refused(*s, with(good, &I::width, 9U), target, REPRISE_INVALID_INPUT, "dimension 1 is 9");
  refused(*s, good, with(target, &I::height, 7U), REPRISE_INVALID_INPUT, "8 x 6");
  refused(*s, with(good, &I::width, 1U << 30), target, REPRISE_INVALID_INPUT, "1073741824");
  refused(*s, with(good, &I::layout, kUndefined), target, REPRISE_USAGE, "UNDEFINED");
  refused(*s, good, with(target, &I::final_layout, kUndefined), REPRISE_USAGE, "leave it");
  constexpr uint32_t kPreinitialized = 8;  // no image can be brought into it
  refused(*s, good, with(target, &I::final_layout, kPreinitialized), REPRISE_USAGE, "leave it");
  refused(*s, with(good, &I::layout, kPreinitialized), target, REPRISE_USAGE, "leave it");
  refused(*s, with(good, &I::image, uint64_t{0}), target, REPRISE_USAGE, "null");
  refused(*s, with(good, &I::second, good.image), target, REPRISE_USAGE, "nv12");
  refused(*s, with(good, &I::struct_size, size_t{0}), target, REPRISE_USAGE, "struct_size");
  refused(*s, with(good, &I::acquire_from, 77U), target, REPRISE_USAGE, "queue family 77");
  refused(*s, good, with(target, &I::release_to, 77U), REPRISE_USAGE, "queue family 77");
  refused(*tensors, good, target, REPRISE_INVALID_INPUT, "not an image");
  refused(*on_host, good, target, REPRISE_INVALID_INPUT, "host");
  const auto own = Device::open("vulkan:" + std::to_string(GetParam()));
  ASSERT_TRUE(own) << own.error().message;
  refused(*session(package, *own), good, target, REPRISE_USAGE, "lends");
  reprise_tensor both = Tensor("x", good).raw(), y = Tensor("y", target).raw();
  both.data = const_cast<uint8_t*>(bytes.data());
  both.bytes = bytes.size();
  reprise_error e{};
  EXPECT_EQ(reprise_session_run(s->get(), &both, 1, &y, 1, nullptr, nullptr, &e),
            REPRISE_INVALID_INPUT);
  const Package planes(classifier_package({"x=nv12,resize=bilinear"}));
  const reprise_vulkan_image odd = with(with(good, &I::format, kNv12), &I::height, 7U);
  reprise_tensor x = Tensor("x", odd).raw();
  EXPECT_EQ(
      reprise_session_run(session(planes, *device)->get(), &x, 1, nullptr, 0, nullptr, nullptr, &e),
      REPRISE_INVALID_INPUT);
  EXPECT_NE(std::string(e.message).find("even"), std::string::npos) << e.message;
  const reprise_vulkan_image alone = with(good, &I::format, kR8);
  x = Tensor("x", alone).raw();
  EXPECT_EQ(
      reprise_session_run(session(planes, *device)->get(), &x, 1, nullptr, 0, nullptr, nullptr, &e),
      REPRISE_INVALID_INPUT);
  EXPECT_NE(std::string(e.message).find("`second`"), std::string::npos) << e.message;
  // After all that, the session works.
  both = Tensor("x", good).raw();
  EXPECT_EQ(reprise_session_run(s->get(), &both, 1, &y, 1, nullptr, nullptr, &e), REPRISE_OK)
      << e.message;
}

TEST_P(ImagesOnVulkan, MistakesOfLendingAreNamed) {
  const auto refused = [](reprise_vulkan_device lent, const char* part) {
    reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
    options.vulkan = &lent;
    const auto opened = Device::open("vulkan", &options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().status, REPRISE_USAGE);
    EXPECT_NE(opened.error().message.find(part), std::string::npos) << opened.error().message;
  };
  reprise_vulkan_device given = lent();
  given.queue_family = 77;
  refused(given, "`queue_family` 77");
  given = lent();
  given.lock_queue = [](void*) {};
  refused(given, "`unlock_queue`");
}

/// This application enables nothing but buffer addresses.
TEST_P(ImagesOnVulkan, FeaturesThatAreNotLentAreNamed) {
  reprise_vulkan_device wanted = REPRISE_VULKAN_DEVICE_INIT;
  reprise_error e{};
  EXPECT_EQ(reprise_vulkan_wanted_features(nullptr, &e), REPRISE_USAGE);
  EXPECT_EQ(reprise_vulkan_wanted_features(&wanted, &e), REPRISE_USAGE);
  const reprise_vulkan_device given = lent();
  wanted.instance = given.instance;
  wanted.physical_device = given.physical_device;
  ASSERT_EQ(reprise_vulkan_wanted_features(&wanted, &e), REPRISE_OK) << e.message;
  EXPECT_EQ(wanted.no_buffer_addresses, 0);
  EXPECT_EQ(wanted.device, nullptr);

  std::vector<std::string> log;
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  options.vulkan = &given;
  options.log = [](void* user, reprise_severity, const char* line) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(line);
  };
  options.log_user = &log;
  const auto opened = Device::open("vulkan", &options);
  ASSERT_TRUE(opened) << opened.error().message;
  const auto s = session(Package(classifier_package({"x=rgba8"})), *opened);
  ASSERT_TRUE(s);
  const std::string notes = s->info().notes;
  const bool all = wanted.shader_int64 && wanted.storage8 && wanted.storage16;
  EXPECT_EQ(log.size(), all ? 1U : 0U);
  if (!all) return;
  EXPECT_NE(notes.find("needs 64-bit integers, 8-bit storage, 16-bit storage"), std::string::npos)
      << notes;
  for (const char* feature : {"shader_int64 (", "storage8 (", "storage16 ("}) {
    EXPECT_NE(notes.find(feature), std::string::npos) << notes;
    EXPECT_NE(log[0].find(feature), std::string::npos) << log[0];
  }
}

TEST(ImagePackages, AreDescribed) {
  const Package package(classifier_package({"x=rgba8,resize=bilinear,mean=0.5"}));
  reprise_slot slot = REPRISE_SLOT_INIT;
  reprise_error e{};
  ASSERT_EQ(reprise_package_input(package.get(), 0, &slot, &e), REPRISE_OK) << e.message;
  EXPECT_EQ(slot.image, REPRISE_IMAGE_RGBA8);
  EXPECT_EQ(slot.dtype, REPRISE_U8);
  EXPECT_STREQ(slot.shape, "[x_height, x_width, 4]");
  EXPECT_STREQ(slot.processing, "resized bilinearly, mean 0.5");
  ASSERT_EQ(reprise_package_output(package.get(), 0, &slot, &e), REPRISE_OK) << e.message;
  EXPECT_EQ(slot.image, REPRISE_IMAGE_NONE);
}

INSTANTIATE_TEST_SUITE_P(Devices, ImagesOnVulkan, testing::Range(size_t{0}, vulkan_devices()));

}  // namespace
}  // namespace reprise::test

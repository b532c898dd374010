// What the compiler makes of images: no kernel of its own, and clear errors.
#include <gtest/gtest.h>

#include "codegen/compile/compile_model.h"
#include "models.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

size_t launches(const package::Package& p) {
  size_t n = 0;
  for (const plan::Step& s : p.variants.front().plan.steps)
    n += std::holds_alternative<plan::Launch>(s.what) ? 1U : 0U;
  return n;
}

TEST(CompiledImages, AddNoKernel) {
  const auto plain = compiled(classifier(32), {});
  ASSERT_TRUE(plain);
  for (const char* image :
       {"x=rgba8", "x=bgra8,mean=0.485:0.456:0.406,std=0.229:0.224:0.225",
        "x=rgba8,resize=bilinear", "x=rgba8,resize=nearest", "x=rgba16f,resize=bilinear",
        "x=nv12,resize=bilinear", "x=r8,resize=bilinear", "x=rgba8,resize=bilinear,crop=run",
        "x=bgra8,crop=4:4:32:32"}) {
    SCOPED_TRACE(image);
    const auto package = compiled(classifier(32), {image});
    ASSERT_TRUE(package);
    EXPECT_EQ(launches(*package), launches(*plain));
    for (size_t v = 0; v < package->variants.size(); ++v)
      EXPECT_EQ(package->variants[v].plan.steps.size(), plain->variants[v].plan.steps.size());
  }
}

/// A convolution whose result is the output.
OnnxWriter convolution(int64_t channels) {
  OnnxWriter m;
  m.input("x", DType::F32, {1, 3, 16, 16});
  m.output("y", DType::F32, {1, channels, 16, 16});
  m.initializer("w", float_tensor({channels, 3, 3, 3}, 0.01F));
  AttrMap pads;
  pads.set("pads", std::vector<int64_t>{1, 1, 1, 1});
  m.node("Conv", {"x", "w"}, {"y"}, {.attrs = pads});
  return m;
}

TEST(CompiledImages, OnlyColoursOfAConvolutionArePackedByAnotherKernel) {
  const size_t plain = launches(*compiled(convolution(1), {}));
  EXPECT_EQ(launches(*compiled(convolution(1), {"x=rgba8", "y=r8"})), plain);
  EXPECT_LE(launches(*compiled(convolution(4), {"x=rgba8", "y=rgba8"})), plain + 1);
  EXPECT_LE(launches(*compiled(convolution(3), {"x=rgba8", "y=rgba8"})), plain + 1);
}

/// A convolution of each channel by itself.
OnnxWriter depthwise() {
  OnnxWriter m;
  m.input("x", DType::F32, {1, 3, 16, 16});
  m.output("y", DType::F32, {1, 3, 16, 16});
  m.initializer("w", float_tensor({3, 1, 3, 3}, 0.01F));
  AttrMap a;
  a.set("pads", std::vector<int64_t>{1, 1, 1, 1});
  a.set("group", int64_t{3});
  m.node("Conv", {"x", "w"}, {"y"}, {.attrs = a});
  return m;
}

TEST(CompiledImages, PixelsAreInterpolatedOnceForOverlappingWindows) {
  EXPECT_EQ(launches(*compiled(depthwise(), {"x=nv12"})), 1U);
  EXPECT_EQ(launches(*compiled(depthwise(), {"x=rgba8,resize=nearest"})), 1U);
  EXPECT_EQ(launches(*compiled(depthwise(), {"x=rgba8,resize=bilinear"})), 2U);
  EXPECT_EQ(launches(*compiled(depthwise(), {"x=nv12,resize=bilinear,crop=run"})), 2U);
}

TEST(CompiledImages, TheKernelOfAnImageListsIt) {
  const auto package = compiled(classifier(16), {"x=rgba8,resize=bilinear"});
  ASSERT_TRUE(package);
  const auto& first = std::get<plan::Launch>(package->variants.front().plan.steps.front().what);
  EXPECT_NE(std::ranges::find(first.nodes, "image 'x'"), first.nodes.end());
}

/// The message of a compilation that fails.
std::string refusal(const OnnxWriter& model, const std::string& text,
                    const SizeRanges& ranges = {}) {
  const auto image = parse_image(text);
  if (!image.ok()) return image.status().message();
  CompileOptions options;
  options.images = {*image};
  options.ranges = ranges;
  const std::string bytes = model.bytes();
  const auto package = compile_bytes(std::as_bytes(std::span(bytes)), options);
  EXPECT_FALSE(package.ok()) << text;
  if (package.ok()) return {};
  EXPECT_EQ(package.status().code(), Code::Usage) << package.status().message();
  return package.status().message();
}

TEST(CompiledImages, MistakesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"x", "NAME=FORMAT"},
      {"=rgba8", "NAME=FORMAT"},
      {"x=rgb8", "there is no format 'rgb8'"},
      {"x=rgba8,resize=cubic", "'resize=cubic' is not understood"},
      {"x=rgba8,mean=a", "'mean=a'"},
      {"x=rgba8,std=0", "'std=0'"},
      {"x=rgba8,scale=0", "'scale=0'"},
      {"x=rgba8,scale=inf", "'scale=inf'"},
      {"x=rgba8,scale=1e300", "'scale=1e300'"},
      {"x=rgba8,std=1e-300", "'std=1e-300'"},
      {"x=rgba8,resize=nearest,resize=bilinear", "'resize' is given twice"},
      {"x=rgba8,matrix=bt601", "'matrix' is only for nv12"},
      {"x=rgba8,range=full", "'range' is only for nv12"},
      {"x=rgba8,size=0x5", "'size=0x5'"},
      {"x=rgba8,crop=1:2:3", "'crop=1:2:3'"},
      {"x=rgba8,what", "'what' is not understood"},
      {"z=rgba8", "no input or output of this name"},
      {"x=rgba8,mean=1:2", "one for each of the 3 channels"},
      {"x=rgba8,crop=run", "needs resize="},
      {"x=rgba8,crop=0:0:5:5", "needs resize="},
      {"x=rgba8,size=5x5", "needs resize="},
      {"x=rgba8,resize=nearest,size=9x9,crop=5:5:5:5", "not inside"},
      {"x=rgba8,layout=nhwc", "no axis has 1, 3 or 4 channels"},
      {"x=rgba8,colors=gray", "does not fit the colors"},
      {"y=r8", "r8 has one channel"},
      {"y=rgba8,resize=nearest", "only inputs"},
  };
  for (const auto& [text, part] : cases) {
    const std::string message = refusal(same({1, 3, 8, 8}), text);
    EXPECT_NE(message.find(part), std::string::npos) << text << ": " << message;
  }
  EXPECT_NE(refusal(same({2, 3, 8, 8}), "x=rgba8").find("batch"), std::string::npos);
  EXPECT_NE(refusal(same({1, 3, 7, 8}), "x=nv12").find("even"), std::string::npos);
  EXPECT_NE(refusal(same({1, 3, 8, 7}), "y=nv12").find("even"), std::string::npos);
  EXPECT_NE(refusal(same({1, 4, 8, 8}), "y=nv12").find("four channels"), std::string::npos);
  EXPECT_NE(refusal(same({1, 4, 8, 8}), "x=r8").find("four channels"), std::string::npos);
  EXPECT_NE(refusal(same({5}), "x=r8").find("2 to 4 dims"), std::string::npos);
}

TEST(CompiledImages, TheInputOfTheCropHasItsName) {
  OnnxWriter m = same({1, 3, 8, 8});
  m.input("x.crop", DType::F32, {4});
  m.output("z", DType::F32, {4});
  m.node("Relu", {"x.crop"}, {"z"});
  EXPECT_NE(refusal(m, "x=rgba8,resize=nearest,crop=run").find("another tensor 'x.crop'"),
            std::string::npos);
}

TEST(CompiledImages, SizesCanBeLimited) {
  const auto limited = [](const std::string& image, const SizeRanges& ranges) {
    CompileOptions options;
    options.images = {*parse_image(image)};
    options.ranges = ranges;
    const std::string bytes = same({1, 3, 8, 8}).bytes();
    return compile_bytes(std::as_bytes(std::span(bytes)), options);
  };
  const auto p = limited("x=rgba8,resize=nearest", {{"x_height", {4, 100}}, {"x_width", {8, 50}}});
  ASSERT_TRUE(p.ok()) << p.status().message();
  const std::vector<Symbol>& symbols = p->io.symbols;
  const auto width = std::ranges::find(symbols, "x_width", &Symbol::name);
  ASSERT_NE(width, symbols.end());
  EXPECT_EQ(width->min, 8);
  EXPECT_EQ(width->max, 50);
  const auto planes = limited("x=nv12,resize=nearest", {{"x_rows", {4, 100}}});
  ASSERT_TRUE(planes.ok()) << planes.status().message();
  const auto rows = std::ranges::find(planes->io.symbols, "x_rows", &Symbol::name);
  ASSERT_NE(rows, planes->io.symbols.end());
  EXPECT_EQ(rows->min, 6);  // three rows of planes for two of pixels
  EXPECT_EQ(rows->max, 99);
  const std::string text = "x=rgba8,resize=nearest,crop=4:4:32:32";
  EXPECT_NE(refusal(same({1, 3, 8, 8}), text, {{"x_width", {1, 20}}}).find("no size between"),
            std::string::npos);
  EXPECT_NE(refusal(same({1, 3, 8, 8}), "x=rgba8,resize=nearest,size=9x9", {{"x_width", {1, 20}}})
                .find("no such size"),
            std::string::npos);
}

TEST(CompiledImages, AModelOfAnySizeTakesImagesOfAnySize) {
  OnnxWriter m;
  m.input("x", DType::F32, {1, 3, std::string("h"), std::string("w")});
  m.output("y", DType::F32, {1, 3, std::string("h"), std::string("w")});
  m.node("Relu", {"x"}, {"y"});
  const auto package = compiled(m, {"x=rgba8", "y=bgra8"});
  ASSERT_TRUE(package);
  EXPECT_EQ(shape_str(package->io.inputs[0].shape, package->io.symbols), "[h, w, 4]");
  EXPECT_EQ(shape_str(package->io.outputs[0].shape, package->io.symbols), "[h, w, 4]");
  EXPECT_EQ(launches(*package), 1U);
}

TEST(CompiledImages, PackagesKeepThem) {
  const auto package = compiled(classifier(8), {"x=nv12,resize=bilinear,matrix=bt601,mean=0.5"});
  ASSERT_TRUE(package);
  const TempDir folder;
  const std::string path = (folder / "image.rpk").string();
  const Status written = package::write(*package, path);
  ASSERT_TRUE(written.ok()) << written.message();
  const auto read = package::read(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ((*read)->io.inputs[0].image, ImageFormat::Nv12);
  EXPECT_EQ((*read)->io.inputs[0].processing, "resized bilinearly, BT.601 limited range, mean 0.5");
  EXPECT_EQ((*read)->io.outputs[0].image, ImageFormat::None);
}

}  // namespace
}  // namespace reprise::test

// Small random models of each family give the logits of transformers, for a prompt and for twenty
// steps behind it. make_data.py made them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>

#include "apps/generate/decoder_session.h"
#include "backends/registry.h"
#include "codegen/compile/compile_model.h"
#include "codegen/compile/compiler.h"
#include "codegen/families/decoder_graph.h"
#include "codegen/formats/safetensors.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/paths.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPrompt = 7;

fs::path data_dir() {
  return test::source_dir() / "tests/families/data";
}

struct Expected {
  std::vector<int64_t> ids;   // of the prompt and behind it
  std::vector<float> logits;  // that chose each of those behind it
};

Expected expected_of(const fs::path& file) {
  Expected out;
  const auto opened = formats::Safetensors::open(file.string());
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  if (!opened.ok()) return out;
  for (const formats::Safetensors::Entry& e : opened->tensors()) {
    const auto count = static_cast<size_t>(e.tensor.count());
    if (e.name == "ids") {
      out.ids.resize(count);
      std::memcpy(out.ids.data(), e.tensor.bytes().data(), count * 8);
    } else {
      out.logits.resize(count);
      std::memcpy(out.logits.data(), e.tensor.bytes().data(), count * 4);
    }
  }
  return out;
}

/// `grow_states`: how it keeps its caches.
Result<std::unique_ptr<Session>> session_of(const families::Decoder& decoder,
                                            const std::string& grow_states,
                                            const OpenedDevice& device) {
  RP_ASSIGN(const builder::BuiltGraph built, families::build_decoder(decoder));
  CompileOptions options;
  options.grow_states = grow_states;
  options.verify_passes = true;
  options.targets = {device.device ? "vulkan" : "host"};
  if (device.device) compile_for(device.info, options);
  RP_ASSIGN(package::Package compiled, compile_built(built, options));
  return Session::create(std::make_shared<const package::Package>(std::move(compiled)),
                         device.device, {});
}

/// The largest difference of the logits at a step, relative to the largest of those expected.
double difference(std::span<const float> got, std::span<const float> want) {
  double most = 0, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    most = std::max(most, std::fabs(static_cast<double>(want[i])));
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error = std::isnan(d) ? INFINITY : std::max(error, std::fabs(d));
  }
  return error / most;
}

void compare(const fs::path& model, const fs::path& expected, const OpenedDevice& device,
             const std::string& grow_states = "auto") {
  SCOPED_TRACE(model.filename().string() + " on " + device.info.id + ", states " + grow_states);
  const Expected want = expected_of(expected);
  const auto decoder = families::open_decoder(model.string());
  ASSERT_TRUE(decoder.ok()) << decoder.status().message();
  auto made = session_of(*decoder, grow_states, device);
  ASSERT_TRUE(made.ok()) << made.status().message();
  auto session = app::DecoderSession::create(*std::move(made), decoder->facts.context);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto vocabulary = static_cast<size_t>((*session)->vocabulary());
  ASSERT_EQ(want.logits.size() % vocabulary, 0U);
  const size_t steps = want.logits.size() / vocabulary;
  ASSERT_EQ(want.ids.size(), kPrompt + steps);
  std::span<const int64_t> next = std::span(want.ids).first(kPrompt);
  for (size_t i = 0; i < steps; ++i) {
    const auto logits = (*session)->advance(next);
    ASSERT_TRUE(logits.ok()) << logits.status().message();
    ASSERT_EQ(logits->size(), vocabulary);
    const auto wanted = std::span(want.logits).subspan(i * vocabulary, vocabulary);
    ASSERT_LE(difference(*logits, wanted), 1e-4) << "at step " << i;
    next = std::span(want.ids).subspan(static_cast<size_t>(kPrompt) + i, 1);
  }
}

struct ModelFiles {
  fs::path model, expected;
};

std::vector<ModelFiles> models() {
  std::vector<ModelFiles> out;
  for (const auto& e : fs::directory_iterator(data_dir())) {
    if (e.is_directory()) {
      out.push_back({e.path(), e.path() / "expected.safetensors"});
    } else if (e.path().extension() == ".gguf") {
      out.push_back({e.path(), data_dir() / (e.path().stem().string() + ".expected.safetensors")});
    }
  }
  std::ranges::sort(out, {}, &ModelFiles::model);
  return out;
}

TEST(Decoders, GiveTheLogitsOfTransformersOnTheHost) {
  const auto host = open_device("host");
  ASSERT_TRUE(host.ok());
  const std::vector<ModelFiles> all = models();
  ASSERT_GE(all.size(), 14U);
  for (const ModelFiles& m : all) compare(m.model, m.expected, *host);
}

void compare_on_devices(const std::function<bool(const std::string& name)>& takes) {
  bool any = false;
  for (const DeviceInfo& info : list_devices()) {
    if (info.facts.api != Api::Vulkan || !info.usable) continue;
    const auto device = open_device(info.id);
    ASSERT_TRUE(device.ok()) << device.status().message();
    any = true;
    for (const ModelFiles& m : models()) {
      if (takes(m.model.filename().string())) compare(m.model, m.expected, *device);
    }
  }
  if (!any) GTEST_SKIP() << "there is no Vulkan device";
}

TEST(Decoders, GiveTheLogitsOfTransformersOnDevices) {
  compare_on_devices(
      [](const std::string& name) { return name == "llama_q4_1.gguf" || name == "gemma2"; });
}

TEST(Decoders, GiveTheLogitsOfTransformersOnDevicesFull) {
  compare_on_devices([](const std::string&) { return true; });
}

/// Caches that the session copies from inputs to outputs, as packages have that were compiled
/// without states.
TEST(Decoders, GiveTheSameLogitsWithCachesAsInputs) {
  const fs::path model = data_dir() / "llama_q4_1.gguf";
  const fs::path expected = data_dir() / "llama_q4_1.expected.safetensors";
  const auto host = open_device("host");
  ASSERT_TRUE(host.ok());
  compare(model, expected, *host, "none");
  const auto device = open_device("vulkan");
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  compare(model, expected, *device, "none");
}

TEST(Decoders, GoOnFromPositionsThatAreKept) {
  const auto host = open_device("host");
  ASSERT_TRUE(host.ok());
  const auto decoder = families::open_decoder((data_dir() / "llama").string());
  ASSERT_TRUE(decoder.ok()) << decoder.status().message();
  auto made = session_of(*decoder, "auto", *host);
  ASSERT_TRUE(made.ok()) << made.status().message();
  auto opened = app::DecoderSession::create(*std::move(made), 8);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  app::DecoderSession& session = **opened;
  const auto logits = [&](std::vector<int64_t> ids) {
    const auto out = session.advance(ids);
    EXPECT_TRUE(out.ok()) << out.status().message();
    return out.ok() ? std::vector<float>(out->begin(), out->end()) : std::vector<float>();
  };
  const std::vector<float> first = logits({3, 17, 5, 9});
  EXPECT_NE(logits({31}), first);
  ASSERT_TRUE(session.truncate(3).ok());
  EXPECT_LE(difference(logits({9}), first), 1e-5);
  EXPECT_FALSE(session.truncate(5).ok());
  EXPECT_FALSE(session.advance(std::vector<int64_t>{1, 2, 3, 4, 5}).ok());
  ASSERT_TRUE(session.restart().ok());
  EXPECT_EQ(session.length(), 0);
  EXPECT_EQ(logits({3, 17, 5, 9}), first);
}

TEST(Decoders, RotaryPositionsThatAreNotFiniteAreErrors) {
  const test::TempDir dir;
  fs::copy_file(data_dir() / "llama/model.safetensors", dir / "model.safetensors");
  const std::string config = test::read_file(data_dir() / "llama/config.json");
  const std::string standard = R"("rope_type": "default")";
  const auto error_of = [&](const std::string& scaling) {
    std::string changed = config;
    const size_t at = changed.find(standard);
    test::write_file(dir / "config.json", changed.replace(at, standard.size(), scaling));
    return families::open_decoder(dir.path().string()).status().message();
  };
  const std::string longrope = R"("rope_type": "longrope", "short_factor": )";
  const std::string bands = R"("rope_type": "llama3", "factor": 8, "low_freq_factor": )";
  EXPECT_EQ(error_of(longrope + "[1, 1, 1, 2]"), "");
  EXPECT_EQ(error_of(bands + "1"), "");
  const std::string why = "infinite or not a number";
  EXPECT_NE(error_of(longrope + "[0, 1, 1, 1]").find(why), std::string::npos);
  EXPECT_NE(error_of(longrope + R"([1, 1, 1, 1], "original_max_position_embeddings": 1)").find(why),
            std::string::npos);
  EXPECT_NE(error_of(R"("rope_type": "linear", "factor": 0)").find(why), std::string::npos);
  EXPECT_NE(error_of(R"("rope_type": "llama3", "factor": 0)").find(why), std::string::npos);
  EXPECT_NE(error_of(bands + "4").find("high_freq_factor"), std::string::npos);
}

TEST(Decoders, FactorsOfGgufThatAreZeroAreErrors) {
  const test::TempDir dir;
  const auto error_of = [&](float factor) {
    test::GgufWriter w;
    w.text("general.architecture", "llama").u32("llama.block_count", 1);
    w.u32("llama.embedding_length", 4).u32("llama.feed_forward_length", 4);
    w.u32("llama.context_length", 8).u32("llama.attention.head_count", 1);
    w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    w.tensor("token_embd.weight", {4, 2}, 0, std::string(32, '\0'));
    const auto raw = [](float v) { return test::GgufWriter::raw(v); };
    w.tensor("rope_freqs.weight", {2}, 0, raw(1) + raw(factor));
    test::write_file(dir / "m.gguf", w.bytes());
    return families::open_decoder((dir / "m.gguf").string()).status().message();
  };
  EXPECT_EQ(error_of(2), "");
  EXPECT_NE(error_of(0).find("infinite or not a number"), std::string::npos);
}

TEST(Decoders, FoldersWithoutWhatTheyNeedAreErrors) {
  const test::TempDir dir;
  const auto refuses = [&](const std::string& config, const std::string& word) {
    test::write_file(dir / "config.json", config);
    const auto opened = families::open_decoder(dir.path().string());
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.status().message().find(word), std::string::npos) << opened.status().message();
  };
  refuses("{", "config.json");
  refuses(R"({"model_type":"bert"})", "'bert'");
  refuses(R"({"model_type":"llama"})", "num_hidden_layers");
  fs::copy_file(data_dir() / "llama/model.safetensors", dir / "model.safetensors");
  std::string config = test::read_file(data_dir() / "llama/config.json");
  const size_t at = config.find("\"num_hidden_layers\": 2");
  ASSERT_NE(at, std::string::npos);
  test::write_file(dir / "config.json", config.replace(at, 22, "\"num_hidden_layers\": 3"));
  const auto decoder = families::open_decoder(dir.path().string());
  ASSERT_TRUE(decoder.ok()) << decoder.status().message();
  const auto built = families::build_decoder(*decoder);
  ASSERT_FALSE(built.ok());
  EXPECT_NE(built.status().message().find("layer 2"), std::string::npos)
      << built.status().message();
}

}  // namespace
}  // namespace reprise

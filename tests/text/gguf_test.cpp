// Files in the format GGUF: what is read, and how each kind of damage is refused.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "apps/text/charsmap.h"
#include "codegen/formats/gguf.h"
#include "codegen/formats/gguf_metadata.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/paths.h"

namespace reprise::formats {
namespace {

using test::GgufWriter;

Result<Gguf> parse_gguf(const std::string& bytes) {
  const auto owner = std::make_shared<std::string>(bytes);
  return Gguf::parse(std::as_bytes(std::span(*owner)), owner, "m.gguf");
}

GgufWriter example() {
  GgufWriter w;
  w.text("general.architecture", "llama").u32("n", 7).i64("big", -5).f32("f", 0.5F).boolean("b", 1);
  w.texts("tokens", {"a", "", "ccc"}).numbers<float>("scores", 6, {1.5F, -2.0F});
  w.numbers<int32_t>("types", 5, {1, -3});
  w.tensor("w", {64, 2}, 2, std::string(4 * 18, 'q'));
  w.tensor("v", {3}, 0, std::string(12, '\0'));
  return w;
}

TEST(GgufFile, HasItsMetadataAndTensors) {
  for (const uint32_t version : {2U, 3U}) {
    GgufWriter w = example();
    w.version = version;
    const auto g = parse_gguf(w.bytes());
    ASSERT_TRUE(g.ok()) << g.status().message();
    EXPECT_EQ(g->version(), version);
    EXPECT_EQ(g->metadata().size(), 8U);
    EXPECT_EQ(*g->text("general.architecture"), "llama");
    EXPECT_EQ(*g->integer("n"), 7);
    EXPECT_EQ(*g->integer("big"), -5);
    EXPECT_EQ(*g->number("f"), 0.5);
    EXPECT_EQ(*g->number("n"), 7.0);
    EXPECT_TRUE(*g->boolean("b"));
    EXPECT_EQ(*g->integer_or("absent", 9), 9);
    const GgufValue* tokens = *g->texts("tokens");
    ASSERT_EQ(tokens->size(), 3U);
    EXPECT_EQ(*tokens->text(0), "a");
    EXPECT_EQ(*tokens->text(1), "");
    EXPECT_EQ(*tokens->text(2), "ccc");
    EXPECT_FALSE(tokens->text(3));
    EXPECT_EQ((*g->numbers("scores"))->number(1), -2.0);
    EXPECT_EQ((*g->numbers("types"))->integer(1), -3);
    ASSERT_EQ(g->tensors().size(), 2U);
    const GgufTensor* t = g->find_tensor("w");
    ASSERT_NE(t, nullptr);
    EXPECT_EQ(t->rank, 2U);
    EXPECT_EQ(t->dims[0], 64U);
    EXPECT_EQ(t->count, 128U);
    EXPECT_EQ(t->bytes.size(), 72U);
    EXPECT_EQ(t->bytes.back(), static_cast<std::byte>('q'));
    EXPECT_EQ(g->find_tensor("v")->bytes.front(), std::byte{0});
    EXPECT_EQ(g->find_tensor("x"), nullptr);
  }
}

/// The keys that are copied have their kinds and values.
TEST(GgufFile, KeysBecomeAFileOfTheirOwn) {
  GgufWriter w = example();
  w.texts("t.words", {"a", "", "\xc3\xa4"}).numbers<float>("t.scores", 6, {1.5F, -2.0F});
  w.numbers<int32_t>("t.types", 5, {1, -3}).u32("t.n", 7).i64("t.big", -5).f32("t.f", 0.5F);
  w.boolean("t.b", 1).text("t.name", "x");
  const auto whole = parse_gguf(w.bytes());
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  const std::string copy = formats::gguf_of_keys(*whole, "t.");
  const auto decoded = text::decode_base64(formats::encode_base64(copy));
  ASSERT_EQ(decoded, copy);
  const auto part = parse_gguf(copy);
  ASSERT_TRUE(part.ok()) << part.status().message();
  EXPECT_TRUE(part->tensors().empty());
  ASSERT_EQ(part->metadata().size(), 8U);
  for (const auto& [key, value] : part->metadata()) {
    const GgufValue* before = whole->find(key);
    ASSERT_NE(before, nullptr) << key;
    EXPECT_EQ(value.kind(), before->kind()) << key;
    ASSERT_EQ(value.size(), before->size()) << key;
    for (size_t i = 0; i < value.size(); ++i) {
      EXPECT_EQ(value.text(i), before->text(i)) << key;
      EXPECT_EQ(value.number(i), before->number(i)) << key;
    }
  }
  EXPECT_EQ(*part->integer("t.big"), -5);
  EXPECT_TRUE(*part->boolean("t.b"));
  for (const std::string bytes : {"", "a", "ab", "abc", "\xff\x01"})
    EXPECT_EQ(text::decode_base64(formats::encode_base64(bytes)), bytes);
}

TEST(GgufFile, WrongKindsAreErrorsThatNameTheKey) {
  const auto g = parse_gguf(example().bytes());
  ASSERT_TRUE(g.ok());
  for (const Status& s :
       {g->integer("tokens").status(), g->text("n").status(), g->texts("scores").status(),
        g->numbers("tokens").status(), g->boolean("n").status(), g->number("b").status()}) {
    EXPECT_EQ(s.code(), Code::InvalidModel);
    EXPECT_NE(s.message().find("m.gguf: the value of key '"), std::string::npos) << s.message();
  }
  EXPECT_NE(g->integer("gone").status().message().find("'gone'"), std::string::npos);
}

TEST(GgufFile, EveryPrefixIsAnError) {
  const std::string whole = example().bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto g = parse_gguf(whole.substr(0, size));
    ASSERT_FALSE(g.ok()) << size;
    ASSERT_FALSE(g.status().message().empty());
  }
}

TEST(GgufFile, DamageIsNamed) {
  constexpr uint64_t kHuge = uint64_t{1} << 62;
  const struct {
    const char* message;
    std::function<void(GgufWriter&)> make;
  } cases[] = {
      {"there twice", [](auto& w) { w.u32("a", 1).u32("a", 2); }},
      {"tensor 't' is there twice",
       [](auto& w) { w.tensor("t", {8}, 0, std::string(32, 'x')).tensor_at("t", {8}, 0, 0); }},
      {"overlap",
       [](auto& w) { w.tensor("t", {8}, 0, std::string(64, 'x')).tensor_at("u", {8}, 0, 0); }},
      {"array of arrays", [](auto& w) { w.array("a", 9, 1, std::string(12, '\0')); }},
      {"has type 13", [](auto& w) { w.entry("a", 13, ""); }},
      {"neither 0 nor 1", [](auto& w) { w.boolean("a", 2); }},
      {"the file ends in the value", [&](auto& w) { w.array("a", 4, kHuge, "xxxx"); }},
      {"the file ends in the value", [&](auto& w) { w.array("a", 8, kHuge, "xxxxxxxx"); }},
      {"the file ends in the value",
       [&](auto& w) { w.entry("a", 8, GgufWriter::raw(uint64_t{0} - 1)); }},
      {"dimensions",
       [](auto& w) {
         w.tensor_at("t", {1, 1, 1, 1, 1}, 0, 0);
       }},
      {"can be counted",
       [&](auto& w) {
         w.tensor_at("t", {kHuge, 4}, 0, 0);
       }},
      {"more than the file's", [&](auto& w) { w.tensor_at("t", {kHuge}, 0, 0); }},
      {"multiples of 32", [](auto& w) { w.tensor_at("t", {16}, 2, 0); }},
      {"type 4, which is not known", [](auto& w) { w.tensor_at("t", {16}, 4, 0); }},
      {"no multiple of the alignment", [](auto& w) { w.tensor_at("t", {1}, 0, 8); }},
      {"may be cut off", [&](auto& w) { w.tensor_at("t", {1}, 0, kHuge); }},
      {"power of two", [](auto& w) { w.u32("general.alignment", 12); }},
      {"power of two", [](auto& w) { w.u32("general.alignment", 0); }},
      {"version 1", [](auto& w) { w.version = 1; }},
      {"most significant byte", [](auto& w) { w.version = 3U << 24; }},
  };
  for (const auto& c : cases) {
    GgufWriter w;
    c.make(w);
    const auto g = parse_gguf(w.bytes());
    ASSERT_FALSE(g.ok()) << c.message;
    EXPECT_NE(g.status().message().find(c.message), std::string::npos) << g.status().message();
  }
}

TEST(GgufFile, IsMappedFromAFile) {
  const test::TempDir dir;
  test::write_file(dir / "m.gguf", example().bytes());
  EXPECT_TRUE(Gguf::open((dir / "m.gguf").string()).ok());
  test::write_file(dir / "empty.gguf", "");
  EXPECT_FALSE(Gguf::open((dir / "empty.gguf").string()).ok());
  EXPECT_EQ(Gguf::open((dir / "none.gguf").string()).status().code(), Code::Io);
}

}  // namespace
}  // namespace reprise::formats

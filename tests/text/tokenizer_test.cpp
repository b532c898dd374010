// Tokenizers against the results of the package `tokenizers`, which peer/compare.py has recorded.
#include "apps/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "codegen/formats/gguf.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/paths.h"

namespace reprise::text {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

fs::path cases_folder() {
  return test::source_dir() / "tests/text/cases";
}

std::vector<std::string> case_names() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(cases_folder()))
    out.push_back(entry.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

json read_case(const std::string& name) {
  return json::parse(test::read_file(cases_folder() / (name + ".json")));
}

Tokenizer tokenizer_of(const json& state) {
  auto t = Tokenizer::from_json(state["tokenizer"].dump(), "tokenizer.json");
  EXPECT_TRUE(t.ok()) << t.status().message();
  return *t;
}

std::string streamed(const Tokenizer& t, const std::vector<int32_t>& ids) {
  StreamDecoder stream(t, false);
  std::string out;
  for (const int32_t id : ids) {
    const std::string part = stream.add(id);
    EXPECT_TRUE(json(part).dump(-1, ' ', false, json::error_handler_t::ignore) ==
                json(part).dump());
    out += part;
  }
  return out + stream.finish();
}

class RecordedTokenizer : public testing::TestWithParam<std::string> {};

TEST_P(RecordedTokenizer, EncodesAndDecodesAlike) {
  const json state = read_case(GetParam());
  const Tokenizer t = tokenizer_of(state);
  ASSERT_GE(state["cases"].size(), 20U);
  for (const json& c : state["cases"]) {
    const std::string input = c["input"];
    const std::vector<int32_t> wanted = c["ids"];
    const auto ids = t.encode(input);
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(*ids, wanted) << c["input"];
    EXPECT_EQ(*t.encode(input, {false, true}), c["plain"].get<std::vector<int32_t>>());
    EXPECT_EQ(t.decode(wanted, false), c["text"].get<std::string>());
    EXPECT_EQ(t.decode(wanted, true), c["short"].get<std::string>());
    EXPECT_EQ(streamed(t, wanted), c["text"].get<std::string>());
  }
}

std::string name_of(const testing::TestParamInfo<std::string>& c) {
  std::string name = c.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecordedTokenizer, testing::ValuesIn(case_names()), name_of);

TEST(TokenizerErrors, TextThatIsNoUtf8IsRefused) {
  const Tokenizer t = tokenizer_of(read_case("gpt2"));
  EXPECT_EQ(t.encode("ab\xFFz").status().message(), "the text is not valid UTF-8 at byte 2");
  EXPECT_FALSE(t.encode("\xED\xA0\x80").ok());
  EXPECT_FALSE(t.encode("\xC3").ok());
}

TEST(TokenizerErrors, NameWhatIsNotSupported) {
  const json state = read_case("gpt2")["tokenizer"];
  const struct {
    const char* part;
    json value;
    const char* message;
  } cases[] = {
      {"/normalizer", {{"type", "Odd"}}, "t.json: normalizer.type: the normalizer 'Odd'"},
      {"/pre_tokenizer", {{"type", "Odd"}}, "t.json: pre_tokenizer.type: the pre-tokenizer 'Odd'"},
      {"/decoder", {{"type", "Odd"}}, "t.json: decoder.type: the decoder 'Odd'"},
      {"/post_processor", {{"type", "Odd"}}, "t.json: post_processor.type: the post-processor"},
      {"/model/type", "Odd", "t.json: model: the model 'Odd' is not supported"},
      {"/model/dropout", 0.1, "t.json: model: has dropout"},
      {"/model/merges", json::array({json::array({"a", "zzz"})}),
       "needs the token 'zzz', which the vocabulary lacks"},
      {"/model/merges", {"a b c"}, "must be two tokens"},
      {"/model/vocab/!", -1, "has id -1"},
      {"/added_tokens/0/id", 1 << 30, "t.json: added_tokens[0].id: is 1073741824"},
  };
  for (const auto& c : cases) {
    json changed = state;
    changed[json::json_pointer(c.part)] = c.value;
    const auto t = Tokenizer::from_json(changed.dump(), "t.json");
    ASSERT_FALSE(t.ok()) << c.message;
    EXPECT_NE(t.status().message().find(c.message), std::string::npos) << t.status().message();
  }
  json split = state;
  for (const char* pattern : {"[a&&b]", "[a[b]]", "(", "\\g<x>"}) {
    split["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
    EXPECT_FALSE(Tokenizer::from_json(split.dump(), "t.json").ok()) << pattern;
  }
}

TEST(SpecialTokens, CanBeLeftToTheText) {
  const Tokenizer t = tokenizer_of(read_case("gpt2"));
  const auto id = t.id_of("<|im_end|>");
  ASSERT_TRUE(id);
  EXPECT_EQ(*t.encode("<|im_end|>"), std::vector<int32_t>{*id});
  const std::vector<int32_t> spelled = *t.encode("<|im_end|>", {true, false});
  EXPECT_GT(spelled.size(), 3U);
  EXPECT_EQ(t.decode(spelled), "<|im_end|>");
  EXPECT_EQ(t.decode(std::vector<int32_t>{*id}), "");
  EXPECT_TRUE(t.ends_generation(*id));
  EXPECT_EQ(t.eot(), id);
  EXPECT_EQ(t.decode(std::vector<int32_t>{-1, 1 << 20}), "");
}

TEST(SpecialTokens, ComeFromTheConfiguration) {
  Tokenizer t = tokenizer_of(read_case("gpt2"));
  EXPECT_FALSE(t.bos());
  ASSERT_TRUE(t.set_special(R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})", "c").ok());
  EXPECT_EQ(t.bos(), t.id_of("<s>"));
  EXPECT_EQ(t.eos(), t.id_of("</s>"));
  EXPECT_TRUE(t.ends_generation(*t.eos()));
  EXPECT_FALSE(t.set_special(R"({"bos_token": "none"})", "c").ok());
  EXPECT_FALSE(t.add_end(-1).ok());
  EXPECT_TRUE(t.add_end(5).ok());
  EXPECT_TRUE(t.ends_generation(5));
}

constexpr EncodeOptions kGuarded{.add_special = false, .guarded = true};

std::vector<std::string> special_tokens(const json& state) {
  std::vector<std::string> out;
  for (const json& token : state["tokenizer"]["added_tokens"])
    if (token["special"].get<bool>()) out.push_back(token["content"]);
  return out;
}

class GuardedTokens : public testing::TestWithParam<std::string> {};

TEST_P(GuardedTokens, StayText) {
  const json state = read_case(GetParam());
  const Tokenizer t = tokenizer_of(state);
  for (const std::string& token : special_tokens(state)) {
    const int32_t id = *t.id_of(token);
    const bool unknown = token == "<unk>" || token == "[UNK]";  // so are unknown characters
    const std::string half = token.substr(0, token.size() / 2), rest = token.substr(half.size());
    for (const std::string& said : {token, "a" + token + "b", token + token, half + token + rest}) {
      const std::string guarded = t.guarded(said);
      const auto ids = t.encode(guarded, kGuarded);
      ASSERT_TRUE(ids.ok()) << ids.status().message();
      EXPECT_TRUE(unknown || std::ranges::count(*ids, id) == 0) << said;
      // As if no special token were known, also beside those of a template.
      EXPECT_EQ(*ids, *t.encode(said, {.add_special = false, .parse_special = false})) << said;
      const auto prompt = t.encode("<s>" + guarded + "</s>", kGuarded);
      EXPECT_EQ(prompt->front(), t.id_of("<s>")) << said;
      EXPECT_EQ(prompt->back(), t.id_of("</s>")) << said;
      const int64_t own = token == "<s>" || token == "</s>" ? 1 : 0;
      EXPECT_TRUE(unknown || std::ranges::count(*prompt, id) == own) << said;
    }
    // Neither do two texts make one together.
    const auto both = t.encode(t.guarded(half) + t.guarded(rest), kGuarded);
    EXPECT_EQ(*both, *t.encode(token, {.add_special = false, .parse_special = false})) << token;
  }
}

/// Ordinary texts, within a prompt and alone, have the ids that they had without guards.
TEST_P(GuardedTokens, OtherTextsAreAsTheyWere) {
  const json state = read_case(GetParam());
  const Tokenizer t = tokenizer_of(state);
  const std::vector<std::string> special = special_tokens(state);
  size_t compared = 0;
  for (const json& c : state["cases"]) {
    const std::string said = c["input"];
    const bool spells = std::ranges::any_of(
        special, [&](const std::string& token) { return said.find(token) != said.npos; });
    if (spells) continue;
    ++compared;
    for (const char* form : {"%", "<s>user\n%</s>\n<s>", "<s>% </s>"}) {
      const std::string before(form, std::strchr(form, '%')), after(std::strchr(form, '%') + 1);
      EXPECT_EQ(*t.encode(before + t.guarded(said) + after, kGuarded),
                *t.encode(before + said + after, {.add_special = false}))
          << form << c["input"];
    }
  }
  EXPECT_GE(compared, 5U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, GuardedTokens, testing::ValuesIn(case_names()), name_of);

TEST(GuardedText, IsOneThatSpellsSpecialTokens) {
  const Tokenizer t = tokenizer_of(read_case("gpt2"));
  const std::string guard(kGuard);
  for (const char* said : {"", "a < b", "|im_end|>", "s>", "\xEF\xBC\x9Cs>"})
    EXPECT_EQ(t.guarded(said), said);
  EXPECT_EQ(t.guarded("a<s>"), "a<" + guard + "s>");
  EXPECT_EQ(t.guarded("<|im_end|"), "<" + guard + "|im_end|") << "a template may go on with '>'";
  EXPECT_EQ(t.guarded("\xFF<s>"), "\xFF<s>") << "which is no UTF-8";
  // A guard of the text itself breaks no other one.
  EXPECT_EQ(*t.encode(t.guarded("<" + guard + "s><s>"), kGuarded),
            *t.encode("<s><s>", {.add_special = false, .parse_special = false}));
}

TEST(GuardedText, SpellsATokenOfOneCharacter) {
  json state = read_case("gpt2");
  json token = state["tokenizer"]["added_tokens"].back();
  token["id"] = 100000;
  token["content"] = "\xC2\xB6";
  token["special"] = true;
  state["tokenizer"]["added_tokens"].push_back(token);
  const Tokenizer t = tokenizer_of(state);
  const std::string said = "a\xC2\xB6";
  ASSERT_EQ(std::ranges::count(*t.encode(said), 100000), 1);
  EXPECT_EQ(*t.encode(t.guarded(said), kGuarded),
            *t.encode(said, {.add_special = false, .parse_special = false}));
  EXPECT_EQ(std::ranges::count(*t.encode(t.guarded(said) + "\xC2\xB6", kGuarded), 100000), 1);
}

/// Tokens that are looked for in normalised text, such as one in letters of full width.
TEST(GuardedText, IsNormalised) {
  json state = read_case("unigram");  // NFKC
  for (json& token : state["tokenizer"]["added_tokens"]) token["normalized"] = true;
  const Tokenizer t = tokenizer_of(state);
  const int32_t id = *t.id_of("<s>");
  const std::string wide = "\xEF\xBC\x9Cs\xEF\xBC\x9E";
  ASSERT_EQ(std::ranges::count(*t.encode(wide), id), 1);
  EXPECT_EQ(std::ranges::count(*t.encode(t.guarded(wide), kGuarded), id), 0);
  EXPECT_EQ(std::ranges::count(*t.encode(t.guarded("<s>") + "<s>", kGuarded), id), 1);
  // A normalizer that removes guards leaves no special tokens beside them.
  state["tokenizer"]["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"String", std::string(kGuard)}}}, {"content", ""}};
  const Tokenizer without = tokenizer_of(state);
  EXPECT_EQ(std::ranges::count(*without.encode(without.guarded("<s>"), kGuarded), id), 0);
}

/// Seconds to encode a text.
double seconds_of(const Tokenizer& t, const std::string& text) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(t.encode(text).ok());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(LongWords, TakeTimeInProportion) {
  for (const char* name : {"gpt2", "fallback", "bert", "unigram", "level"}) {
    const Tokenizer t = tokenizer_of(read_case(name));
    for (const std::string unit : {"ab", " ", "\n", "\xE2\x96\x81", "9", "a ", "e\xCC\x81"}) {
      std::string text;
      for (size_t i = 0; i < 5'000; ++i) text += unit;
      const double little = seconds_of(t, text);
      for (size_t i = 0; i < 4; ++i) text += text;  // 16 times as long
      // A quadratic algorithm takes 256 times as long.
      EXPECT_LT(seconds_of(t, text), 100 * little + 2) << name << " '" << unit << "'";
    }
  }
}

test::GgufWriter sentence_file() {
  test::GgufWriter w;
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<float> scores{0, 0, 0};
  std::vector<int32_t> types{2, 3, 3};
  const auto add = [&](const std::string& token, float score, int32_t type) {
    tokens.push_back(token);
    scores.push_back(score);
    types.push_back(type);
  };
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", b);
    add(name, 0, 6);
  }
  float score = 0;
  for (const char* token : {"\xE2\x96\x81", "a", "b",
                            "\xE2\x96\x81"
                            "a",
                            "ab", "aa",
                            "\xE2\x96\x81"
                            "ab"})
    add(token, score -= 1, 1);
  w.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", tokens);
  w.numbers("tokenizer.ggml.scores", 6, scores).numbers("tokenizer.ggml.token_type", 5, types);
  w.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
  w.text("tokenizer.chat_template", "{{ messages }}");
  return w;
}

Result<Tokenizer> tokenizer_of_gguf(const std::string& bytes) {
  const auto owner = std::make_shared<std::string>(bytes);
  auto file = formats::Gguf::parse(std::as_bytes(std::span(*owner)), owner, "m.gguf");
  if (!file.ok()) return file.status();
  return Tokenizer::from_gguf(*file);
}

TEST(GgufTokenizer, MergesByScore) {
  const auto t = tokenizer_of_gguf(sentence_file().bytes());
  ASSERT_TRUE(t.ok()) << t.status().message();
  const auto tokens = [&](const char* text) {
    const auto ids = t->encode(text);
    if (!ids.ok()) return ids.status().message();
    std::string out;
    for (const int32_t id : *ids) out += std::string(t->token(id)) + "|";
    return out;
  };
  // The pair with the highest score first: (space, a) before (a, b).
  EXPECT_EQ(tokens("ab aab"),
            "<s>|\xE2\x96\x81"
            "ab|\xE2\x96\x81"
            "a|ab|");
  EXPECT_EQ(tokens("\xC3\xA9"), "<s>|\xE2\x96\x81|<0xC3>|<0xA9>|");
  EXPECT_EQ(tokens(""), "<s>|");
  EXPECT_EQ(t->decode(*t->encode("ab \xC3\xA9 aab")), "ab \xC3\xA9 aab");
  EXPECT_EQ(t->bos(), 1);
  EXPECT_EQ(t->eos(), 2);
  EXPECT_EQ(t->chat_template(), "{{ messages }}");
}

TEST(GgufTokenizer, DamageIsNamed) {
  test::GgufWriter w;
  w.text("tokenizer.ggml.model", "rwkv").texts("tokenizer.ggml.tokens", {"a"});
  EXPECT_EQ(
      tokenizer_of_gguf(w.bytes()).status().message(),
      "m.gguf: tokenizer.ggml.model is 'rwkv', but only gpt2, llama, bert and t5 are supported");
  test::GgufWriter pre;
  pre.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", {"a"});
  pre.text("tokenizer.ggml.pre", "odd").texts("tokenizer.ggml.merges", {});
  EXPECT_EQ(tokenizer_of_gguf(pre.bytes()).status().message(),
            "m.gguf: tokenizer.ggml.pre is 'odd', which is not supported");
  test::GgufWriter id = sentence_file();
  id.u32("tokenizer.ggml.eot_token_id", 100000);
  EXPECT_NE(tokenizer_of_gguf(id.bytes()).status().message().find("eot_token_id is 100000"),
            std::string::npos);
  test::GgufWriter types;
  types.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"a"});
  types.numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 1});
  EXPECT_NE(tokenizer_of_gguf(types.bytes()).status().message().find("has 2 items"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise::text

// Chat templates against the results of Jinja's sandbox, which peer/compare_templates.py has
// recorded.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/template/chat_template.h"
#include "tests/support/paths.h"

namespace reprise::text {
namespace {

using json = nlohmann::ordered_json;  // members keep their order

Result<std::string> render(const std::string& source, const std::string& variables = "{}",
                           const ChatOptions& options = {}) {
  auto t = ChatTemplate::parse(source, "t");
  if (!t.ok()) return t.status();
  return t->render_variables(variables, options);
}

TEST(ChatTemplates, RenderAsJinjaDoes) {
  const auto folder = test::source_dir() / "tests/text";
  const json all = json::parse(test::read_file(folder / "templates/recorded.json"));
  ASSERT_GE(all.size(), 300U);
  size_t errors = 0;
  for (const json& c : all) {
    const std::string source =
        c.contains("file") ? test::read_file(folder / "templates" / c["file"].get<std::string>())
                           : c["template"].get<std::string>();
    ChatOptions options;
    options.now = 1'700'000'000;
    const auto out = render(source, c["variables"].dump(), options);
    if (c["text"].is_null()) {
      ++errors;
      EXPECT_FALSE(out.ok()) << source << "\n" << *out;
    } else {
      EXPECT_TRUE(out.ok()) << source << "\n" << out.status().message();
      EXPECT_EQ(out.ok() ? *out : "", c["text"].get<std::string>()) << source;
    }
  }
  EXPECT_GE(errors, 5U);
}

TEST(ChatTemplates, TakeMessages) {
  const auto t = ChatTemplate::parse(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      "t");
  ASSERT_TRUE(t.ok());
  const ChatMessage messages[] = {{"user", "hi"}, {"assistant", "\xC3\xA9"}};
  ChatOptions options;
  options.bos_token = "<s>";
  EXPECT_EQ(*t->render(messages, options), "<s><user>hi<assistant>\xC3\xA9<assistant>");
  options.add_generation_prompt = false;
  EXPECT_EQ(*t->render_json(R"([{"role": "user", "content": "x"}])", options), "<s><user>x");
  EXPECT_FALSE(t->render_json("{}").ok());
  const ChatMessage wrong[] = {{"user", "\xFF"}};
  EXPECT_EQ(t->render(wrong).status().message(), "message 0 is not valid UTF-8 at byte 0");
}

TEST(ChatTemplates, ErrorsNameTheLine) {
  EXPECT_EQ(render("a\n{% include 'x' %}").status().message(),
            "t: line 2: the tag 'include' is not supported");
  EXPECT_EQ(render("a\n\n{{ raise_exception('no') }}").status().message(),
            "t: line 3: the template refuses this chat: no");
  EXPECT_EQ(render("{{ 1 | odd }}").status().message(),
            "t: line 1: the filter 'odd' is not supported");
  EXPECT_EQ(render("{{ x.y }}").status().message(),
            "t: line 1: 'x' is not defined, so it has no 'y'");
  EXPECT_EQ(render("{% if x %}").status().message(),
            "t: line 1: the block that needs 'endif' has no end");
  EXPECT_NE(render("{{ strftime_now('%Y') }}").status().message().find("asks for the time"),
            std::string::npos);
  for (const char* wrong : {"{{", "{{ 'a }}", "{% for %}", "{% set %}", "{{ 1 + }}", "{{ (1 }}",
                            "{#", "{% raw %}", "{% endif %}", "{{ a[1:2:3:4] }}", "{% break %}",
                            "{{ f(a=1, 2) }}", "\xFF", "{{ 99999999999999999999 }}"}) {
    EXPECT_FALSE(ChatTemplate::parse(wrong, "t").ok()) << wrong;
  }
}

TEST(ChatTemplates, AreBounded) {
  for (const char* endless :
       {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor "
        "%}",
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor "
        "%}",
        "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}",
        "{% set n = namespace(x=1) %}{% for i in range(99) %}{% set n.x = n.x * 9 %}{% endfor %}",
        "{{ 'abc' * 9999999999 }}", "{{ [0] * 9999999999 }}", "{{ range(10 ** 12) }}",
        "{{ ('a' * 1000000).replace('a', 'b' * 1000) }}", "{{ 2 ** 99 }}",
        "{{ ('x' * 9000000) ~ ('x' * 9000000) }}"}) {
    EXPECT_FALSE(render(endless).ok()) << endless;
  }
  EXPECT_FALSE(ChatTemplate::parse("{{ " + std::string(100000, '(') + " }}", "t").ok());
  EXPECT_FALSE(ChatTemplate::parse("{{ " + std::string(100000, '-') + "1 }}", "t").ok());
  std::string deep;
  for (int i = 0; i < 10000; ++i) deep += "{% if 1 %}";
  EXPECT_FALSE(ChatTemplate::parse(deep, "t").ok());
  // A namespace in itself is freed.
  EXPECT_TRUE(render("{% set n = namespace() %}{% set n.me = [n] %}{{ n.me | length }}").ok());
}

}  // namespace
}  // namespace reprise::text

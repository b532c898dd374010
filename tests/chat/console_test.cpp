// Lines of users, and text that reaches a terminal.
#include <gtest/gtest.h>

#include "apps/chat/console.h"
#include "apps/chat/conversation.h"
#include "apps/samples/terminal.h"

namespace reprise::chat {
namespace {

TEST(Console, TellsCommandsFromMessages) {
  EXPECT_EQ(parse_line("hello").command, "");
  EXPECT_EQ(parse_line("hello").text, "hello");
  EXPECT_EQ(parse_line(" /new").command, "");
  EXPECT_EQ(parse_line("/new").command, "/new");
  EXPECT_EQ(parse_line("/new  ").text, "");
  EXPECT_EQ(parse_line("/save  a file ").text, "a file");
  EXPECT_EQ(parse_line("/").command, "/");
}

TEST(Console, AnswersCannotSteerTheTerminal) {
  EXPECT_EQ(samples::without_controls("a\x1b[31mb\r\x7f\x07"), "a[31mb");
  EXPECT_EQ(samples::without_controls("a\n\tb"), "a\n\tb");
  EXPECT_EQ(samples::without_controls("\xc2\x9b"
                                      "31m \xc3\x9b \xe2\x82\xac"),
            "31m \xc3\x9b \xe2\x82\xac");
}

TEST(Conversation, FilesGoBothWays) {
  Conversation c;
  c.turns = {{"user", "say \"\xe2\x82\xac\"\n"}, {"assistant", ""}};
  set_system(c, "be kind");
  set_system(c, "be brief");
  const auto read = from_json(to_json(c), "file");
  ASSERT_TRUE(read) << read.status().message();
  const Conversation& same = read->conversation;
  ASSERT_EQ(same.turns.size(), 3U);
  EXPECT_EQ(first_of(same, "system"), "be brief");
  EXPECT_EQ(same.turns[1].content, c.turns[1].content);
  EXPECT_FALSE(read->caches);
  c.known = {"say", {3, 1, 4}};
  const auto with_caches = from_json(to_json(c, SavedCaches{2, "model", "digest"}), "file");
  ASSERT_TRUE(with_caches) << with_caches.status().message();
  EXPECT_EQ(with_caches->conversation.known.ids, c.known.ids);
  EXPECT_EQ(with_caches->conversation.known.text, "say");
  EXPECT_EQ(with_caches->caches->tokens, 2);
  EXPECT_FALSE(from_json(to_json(c, SavedCaches{4, "model", "digest"}), "file"))
      << "more tokens than ids";
  set_system(c, "");
  EXPECT_EQ(first_of(c, "system"), "");
  EXPECT_EQ(c.turns.size(), 2U);
}

}  // namespace
}  // namespace reprise::chat

#include "codegen/graph/size_options.h"

#include <gtest/gtest.h>

#include "codegen/graph/text/text.h"

namespace reprise {
namespace {

TEST(SizeRange, IsRead) {
  struct Row {
    std::string text, name;
    int64_t min, max;
  };
  for (const Row& row : {Row{"batch=1..64", "batch", 1, 64}, Row{"n=5..5", "n", 5, 5},
                         Row{"n=2..", "n", 2, 2147483647}, Row{"n=..9", "n", 0, 9}}) {
    const auto r = parse_range(row.text);
    ASSERT_TRUE(r.ok()) << r.status().message();
    EXPECT_EQ(r->first, row.name);
    EXPECT_EQ(r->second.min, row.min) << row.text;
    EXPECT_EQ(r->second.max, row.max) << row.text;
  }
}

TEST(SizeRange, NamesWhatIsWrong) {
  for (const std::string text : {"", "n", "n=", "n=3", "=1..2", "n=1.2", "n=a..2", "n=1..2x",
                                 "n=1..99999999999999999999", "1..2"}) {
    const auto r = parse_range(text);
    ASSERT_FALSE(r.ok()) << text;
    EXPECT_EQ(r.status().code(), Code::Usage);
    EXPECT_NE(r.status().message().find("NAME=MIN..MAX"), std::string::npos)
        << r.status().message();
  }
  EXPECT_EQ(parse_ranges({"n=1..2", "n=1..3"}).status().message(),
            "the range of 'n' is given twice");
}

TEST(SizeRange, LimitsSymbols) {
  auto g = graph::parse("graph sizes\ninput x: float32[n,m]\nz = Relu(x) @14\noutput z\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  ASSERT_TRUE(graph::apply_ranges(**g, {{"m", {2, 9}}}).ok());
  EXPECT_EQ((*g)->symbols[1].min, 2);
  EXPECT_EQ((*g)->symbols[1].max, 9);
  EXPECT_EQ((*g)->symbols[0].max, Symbol().max);
  const Status unknown = graph::apply_ranges(**g, {{"k", {2, 9}}});
  EXPECT_EQ(unknown.code(), Code::Usage);
  EXPECT_EQ(unknown.message(),
            "--range k=2..9: the model has no such size; the sizes that its inputs decide are "
            "'n', 'm'");
  for (const Interval& range : {Interval{3, 2}, Interval{-1, 2}, Interval{0, int64_t{1} << 31}})
    EXPECT_EQ(graph::apply_ranges(**g, {{"n", range}}).code(), Code::Usage);
}

}  // namespace
}  // namespace reprise

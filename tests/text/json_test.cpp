// JSON documents: values, and errors that say where.
#include <gtest/gtest.h>

#include "codegen/formats/json.h"

namespace reprise::formats {
namespace {

std::string error_of(const std::string& text, const JsonLimits& limits = {}) {
  const auto j = Json::parse(text, "c.json", limits);
  return j.ok() ? "" : j.status().message();
}

TEST(JsonDocument, HasItsValues) {
  const auto j = Json::parse(
      R"({"a": [1, -2, 2.5, "x\u00e9", true, null, {}], "b": {"c": "d"}, "u": 18446744073709551615})",
      "c.json");
  ASSERT_TRUE(j.ok()) << j.status().message();
  EXPECT_EQ(j->size(), 3U);
  const Json a = *j->at("a");
  std::string kinds;
  for (const Json& item : a.items()) kinds += std::to_string(static_cast<int>(item.kind()));
  EXPECT_EQ(kinds, "2234106");
  EXPECT_EQ(*(*j->find("b")).text_or("c", ""), "d");
  EXPECT_EQ(*j->find("b")->integer_or("none", 4), 4);
  EXPECT_EQ(j->at("u")->number().status().message(), "");
  EXPECT_FALSE(j->find("none"));
  std::string keys;
  for (const Json& m : j->items()) keys += m.key();
  EXPECT_EQ(keys, "abu");
}

TEST(JsonDocument, ErrorsNameThePath) {
  const auto j = Json::parse(R"({"layers": [{}, [], {"size": "big", "n": 5}]})", "c.json");
  ASSERT_TRUE(j.ok());
  Json last = *j;
  for (const Json& item : j->at("layers")->items()) last = item;
  EXPECT_EQ(last.at("size")->integer().status().message(),
            "c.json: layers[2].size: must be an integer, but is a text");
  EXPECT_EQ(last.at("n")->integer(0, 3).status().message(),
            "c.json: layers[2].n: is 5, but must be from 0 to 3");
  EXPECT_EQ(last.at("m").status().message(), "c.json: layers[2]: has no member 'm'");
  EXPECT_EQ(last.integer_or("size", 0).status().message(),
            "c.json: layers[2].size: must be an integer, but is a text");
  EXPECT_EQ(j->at("layers")->text_or("x", "").status().message(),
            "c.json: layers: must be an object, but is an array");
}

TEST(JsonDocument, DamageIsAnError) {
  EXPECT_NE(error_of("").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("[1, 2").find("not valid JSON at byte"), std::string::npos);
  EXPECT_NE(error_of("[1] 2").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("[1e999]").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("[\"\xC0\x80\"]").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of(R"(["\ud800"])").find("not valid JSON"), std::string::npos);
  EXPECT_EQ(error_of(R"({"a": 1, "b": 2, "a": 3})"), "c.json: has an object with two members 'a'");
  EXPECT_NE(error_of(std::string(100000, '[')).find("nested deeper than 64"), std::string::npos);
  EXPECT_NE(error_of("[1,2,3]", {4, 100, 3}).find("more than 3 values"), std::string::npos);
  EXPECT_NE(error_of("[1,2,3]", {4, 6, 30}).find("more than the limit of 6"), std::string::npos);
}

}  // namespace
}  // namespace reprise::formats

#include "runtime/base/varint.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise {
namespace {

TEST(Varint, SevenBitsPerByteTheLowestFirst) {
  VarintWriter<std::vector<uint8_t>> w(0);
  for (const uint64_t v : {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{300}}) w.number(v);
  EXPECT_EQ(w.take(), (std::vector<uint8_t>{0, 127, 0x80, 1, 0xac, 2}));
  EXPECT_TRUE(w.take().empty());
}

TEST(Varint, TheLargestNumberTakesTenBytes) {
  VarintWriter<std::string> w(3);
  w.number(~uint64_t{0});
  const std::string bytes = w.take();
  ASSERT_EQ(bytes.size(), 10U);
  EXPECT_EQ(bytes.substr(0, 9), std::string(9, '\xff'));
  EXPECT_EQ(bytes[9], '\x01');
}

TEST(Varint, WritesBeyondTheExpectedSize) {
  VarintWriter<std::string> w(1);
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    w.raw(std::string("ab"));
    w.byte(200);
    expected += "ab\xc8";
  }
  EXPECT_EQ(w.take(), expected);
}

}  // namespace
}  // namespace reprise

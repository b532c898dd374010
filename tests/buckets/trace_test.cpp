#include "apps/buckets/trace.h"

#include <gtest/gtest.h>

namespace reprise::app {
namespace {

std::string text_of(const Result<Trace>& trace) {
  if (!trace.ok()) return "error: " + trace.status().message();
  std::string out;
  for (const SizeCount& s : *trace) {
    if (!out.empty()) out += " ";
    out += std::to_string(s.size) + "x" + std::to_string(s.runs);
  }
  return out;
}

struct Case {
  const char* name;
  const char* csv;
  const char* column;
  const char* expected;
};

const Case kCases[] = {
    {"Numbers", "5\n3\n5\n", "", "3x1 5x2"},
    {"NoEndOfLine", "5\n3", "", "3x1 5x1"},
    {"WindowsLinesAndByteOrderMark", "\xEF\xBB\xBFsize\r\n7\r\n\r\n7\r\n", "", "7x2"},
    {"SizesAndCounts", "size,count\n4,10\n2,5\n4,1\n", "", "2x5 4x11"},
    {"NamedColumn", "time,context,generated\n2023-11-16 18:15:46.6,374,44\n2023,396,109\n",
     "context", "374x1 396x1"},
    {"NumberedColumn", "a,b\n1,9\n2,8\n", "2", "8x1 9x1"},
    {"OnlyColumnOfNumbers", "when,length\nmonday,12\n\"tuesday\",\"13\"\n", "", "12x1 13x1"},
    {"Empty", "\n  \n", "", "error: 't.csv' is empty: expected a line for each run"},
    {"OnlyAHeader", "size\n", "", "error: 't.csv' has a header, but no runs"},
    {"SeveralColumns", "a,b\n1,2\n", "",
     "error: 't.csv' has several columns (a, b); --column names the one with sizes"},
    {"UnknownColumn", "a,b\n1,2\n", "c",
     "error: 't.csv' has no column 'c'; its first line is: a, b"},
    {"Zero", "3\n0\n", "",
     "error: 't.csv', line 2: '0' is not a whole number from 1 to 2147483647"},
    {"Fraction", "3\n1.5\n2\n", "",
     "error: 't.csv', line 2: '1.5' is not a whole number from 1 to 2147483647"},
    {"TooLarge", "3000000000\n", "",
     "error: 't.csv', line 1: '3000000000' is not a whole number from 1 to 2147483647"},
    {"ShortLine", "a,size\n1,2\n3\n", "size",
     "error: 't.csv', line 3 has 1 fields, not the expected 2 or more"},
    {"TooManyRuns", "size,runs\n1,1099511627776\n2,1\n", "",
     "error: 't.csv' has more than 2^40 runs"},
};

class Csv : public testing::TestWithParam<Case> {};

TEST_P(Csv, IsRead) {
  EXPECT_EQ(text_of(parse_trace(GetParam().csv, GetParam().column, "t.csv")), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Trace, Csv, testing::ValuesIn(kCases),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace reprise::app

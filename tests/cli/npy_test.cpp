#include "apps/common/npy.h"

#include <gtest/gtest.h>

#include "apps/common/utf8.h"
#include "tests/support/paths.h"

namespace reprise::app {
namespace {

Result<HostTensor> parse(const std::string& text) {
  return parse_npy(std::as_bytes(std::span(text)));
}

/// A version 1 file with a header as given and data.
std::string npy(const std::string& header, const std::string& data) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  return out + header + data;
}

std::string dict(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

TEST(Npy, RoundTripsEveryNumberType) {
  for (const DType t : {DType::F32, DType::F16, DType::F64, DType::I8, DType::U8, DType::I16,
                        DType::U16, DType::I32, DType::U32, DType::I64, DType::U64, DType::Bool}) {
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{}, {0}, {3}, {2, 3}, {2, 0, 5}, {1, 2, 3, 4}}) {
      HostTensor before(t, dims);
      for (size_t i = 0; i < before.bytes().size(); ++i) {
        before.mutable_bytes()[i] = static_cast<std::byte>(t == DType::Bool ? i % 2 : i * 37);
      }
      const std::string file = format_npy(before);
      EXPECT_EQ((file.size() - before.bytes().size()) % 64, 0u) << "data is not aligned";
      Result<HostTensor> after = parse(file);
      ASSERT_TRUE(after.ok()) << after.status().message();
      EXPECT_EQ(after->dtype(), t);
      EXPECT_EQ(after->dims(), dims);
      EXPECT_TRUE(std::equal(before.bytes().begin(), before.bytes().end(), after->bytes().begin(),
                             after->bytes().end()));
    }
  }
}

TEST(Npy, Bfloat16IsWidened) {
  HostTensor t(DType::BF16, {2});
  t.mutable_data<uint16_t>()[0] = float_to_bf16(1.5f);
  t.mutable_data<uint16_t>()[1] = float_to_bf16(-2.0f);
  Result<HostTensor> back = parse(format_npy(t));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->dtype(), DType::F32);
  EXPECT_EQ(back->data<float>()[0], 1.5f);
  EXPECT_EQ(back->data<float>()[1], -2.0f);
}

TEST(Npy, LowBitTypesAreWidened) {
  const auto back = [](DType t, uint8_t code) {
    return *parse(format_npy(HostTensor::from<uint8_t>(t, {1}, {code})));
  };
  EXPECT_EQ(back(DType::I4, 0xf9).data<int8_t>()[0], -7);
  EXPECT_EQ(back(DType::I4, 0xf9).dtype(), DType::I8);
  EXPECT_EQ(back(DType::U2, 3).dtype(), DType::U8);
  EXPECT_EQ(back(DType::F8E4M3FN, 0x7e).dtype(), DType::F32);
  EXPECT_EQ(back(DType::F8E4M3FN, 0x7e).data<float>()[0], 448.0f);
  EXPECT_EQ(back(DType::F8E8M0, 128).data<float>()[0], 2.0f);
}

TEST(Npy, Strings) {
  HostTensor t(DType::String, {3});
  t.mutable_strings() = {"a", "", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"};
  Result<HostTensor> back = parse(format_npy(t));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->strings(), t.strings());
}

TEST(Npy, FortranOrderAndBigEndian) {
  // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]], '>i2')
  const std::string data("\0\1\0\4\0\2\0\5\0\3\0\6", 12);
  Result<HostTensor> t = parse(npy(dict(">i2", "(2, 3)", true), data));
  ASSERT_TRUE(t.ok()) << t.status().message();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(t->data<int16_t>()[i], i + 1);
}

TEST(Npy, KeysInAnyOrderAndVersion2) {
  const std::string header = "{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"|u1\"}";
  std::string file("\x93NUMPY\x02\x00", 8);
  file += std::string{static_cast<char>(header.size()), '\0', '\0', '\0'} + header + "ab";
  Result<HostTensor> t = parse(file);
  ASSERT_TRUE(t.ok()) << t.status().message();
  EXPECT_EQ(t->data<uint8_t>()[1], 'b');
}

TEST(Npy, HostileFilesAreErrors) {
  const std::string good = npy(dict("<f4", "(2,)"), std::string(8, '\0'));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(parse(good.substr(0, size)).ok()) << size;
  }
  const std::string bad[] = {
      npy(dict("<f4", "(2,)"), std::string(9, '\0')),                // data after the data
      npy(dict("<f4", "(-2,)"), ""),                                 // negative
      npy(dict("<f4", "(4611686018427387904, 4)"), ""),              // overflows
      npy(dict("<f4", "(99999999999999999999,)"), ""),               // no int64
      npy(dict("<f4", "(1099511627776,)"), ""),                      // no such memory
      npy(dict("<f4", "(1.5,)"), ""),                                // no integer
      npy(dict("|O", "(1,)"), "xxxx"),                               // pickled objects
      npy(dict("<U99999999999999999999", "(1,)"), ""),               // absurd width
      npy(dict("<U1", "(1,)"), std::string("\x00\xd8\x00\x00", 4)),  // a surrogate
      npy(dict("<c8", "(1,)"), std::string(8, '\0')),                // complex
      npy("{'descr': '<f4', 'shape': (1,)}", std::string(4, '\0')),  // a key is missing
      npy("{'descr': '<f4', 'evil': 1}", std::string(4, '\0')),      // unknown key
      npy("{'descr': '<f4", std::string(4, '\0')),                   // open quote
      npy("", ""),
      npy(dict("<f4", "(" + std::string(200, '1') + ")"), ""),
      npy(dict("<f4", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"),
          std::string(4, '\0')),  // too many dims
      std::string("\x93NUMPY\x09\x00\x00\x00\x00\x00", 12),
      std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13),
  };
  for (const std::string& file : bad) EXPECT_FALSE(parse(file).ok()) << file;
}

TEST(Npy, FilesAreNamedInErrors) {
  test::TempDir dir;
  test::write_file(dir / "x.npy", "junk");
  EXPECT_NE(read_npy(dir / "x.npy").status().message().find("x.npy"), std::string::npos);
  EXPECT_EQ(read_npy(dir / "absent.npy").status().code(), Code::Io);
  EXPECT_EQ(write_npy(HostTensor(DType::F32, {1}), dir / "no/such/x.npy").code(), Code::Io);
}

TEST(Utf8, RefusesWhatIsMalformed) {
  for (const char* text : {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "a\xff", "\xe2\x82"}) {
    EXPECT_FALSE(from_utf8(text).ok()) << text;
  }
  const std::string good = "a\xc2\xa2\xe2\x82\xac\xf0\x90\x8d\x88";
  Result<std::u32string> decoded = from_utf8(good);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, U"a\u00a2\u20ac\U00010348");
  EXPECT_EQ(*to_utf8(*decoded), good);
}

}  // namespace
}  // namespace reprise::app

// Files in the format safetensors: what is read, and how each kind of damage is refused.
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/formats/safetensors.h"
#include "tests/support/paths.h"

namespace reprise::formats {
namespace {

std::string file_of(const std::string& header, const std::string& data) {
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i) & 255U);
  return out + header + data;
}

Result<Safetensors> parse_file(const std::string& bytes) {
  const auto owner = std::make_shared<std::string>(bytes);
  return Safetensors::parse(std::as_bytes(std::span(*owner)), owner, "m.safetensors");
}

constexpr const char* kHeader = R"({"__metadata__":{"format":"pt"},)"
                                R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                                R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]},)"
                                R"("c":{"dtype":"I8","shape":[0,4],"data_offsets":[14,14]}})";

TEST(SafetensorsFile, HasItsTensors) {
  const auto f = parse_file(file_of(kHeader, "12345678abcdef"));
  ASSERT_TRUE(f.ok()) << f.status().message();
  ASSERT_EQ(f->tensors().size(), 3U);
  EXPECT_EQ(f->tensors()[0].name, "a");
  EXPECT_EQ(f->tensors()[0].tensor.dtype(), DType::F32);
  EXPECT_EQ(f->tensors()[0].tensor.dims(), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(f->tensors()[1].tensor.dtype(), DType::BF16);
  EXPECT_EQ(static_cast<char>(f->tensors()[1].tensor.bytes().back()), 'f');
  EXPECT_EQ(f->tensors()[2].tensor.count(), 0);
}

TEST(SafetensorsFile, TensorsAtOddBytesAreCopied) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]},)"
                             R"("c":{"dtype":"F32","shape":[1],"data_offsets":[6,10]}})";
  const float one = 1.5F;
  std::string data(10, '\0');
  std::memcpy(&data[1], &one, sizeof one);
  std::memcpy(&data[6], &one, sizeof one);
  const auto f = parse_file(file_of(header, data));
  ASSERT_TRUE(f.ok()) << f.status().message();
  for (const size_t i : {1, 2}) {
    const HostTensor& t = f->tensors()[i].tensor;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.bytes().data()) % sizeof(float), 0U);
    EXPECT_EQ(*t.data<float>(), one);
  }
}

TEST(SafetensorsFile, EveryPrefixIsAnError) {
  const std::string whole = file_of(kHeader, "12345678abcdef");
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto f = parse_file(whole.substr(0, n));
    ASSERT_FALSE(f.ok()) << n;
    EXPECT_EQ(f.status().code(), Code::InvalidModel);
    EXPECT_NE(f.status().message().find("m.safetensors"), std::string::npos);
  }
}

TEST(SafetensorsFile, WrongEntriesAreErrorsThatNameThem) {
  const auto refuses = [](const std::string& entry, const std::string& word) {
    const auto f = parse_file(file_of("{\"w\":" + entry + "}", "0123456789abcdef"));
    ASSERT_FALSE(f.ok()) << entry;
    EXPECT_NE(f.status().message().find(word), std::string::npos) << f.status().message();
  };
  refuses(R"({"dtype":"F12","shape":[2],"data_offsets":[0,8]})", "dtype");
  refuses(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", "12 bytes");
  refuses(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "shape");
  refuses(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "data_offsets");
  refuses(R"({"dtype":"F32","shape":[2],"data_offsets":[12,20]})", "data_offsets");
  refuses(R"({"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,8]})", "shape");
  refuses(R"({"dtype":"F32","shape":[2]})", "data_offsets");
  refuses("7", "w");
}

TEST(SafetensorsFile, OverlapsAreErrors) {
  const auto f = parse_file(file_of(R"({"v":{"dtype":"U8","shape":[5],"data_offsets":[3,8]},)"
                                    R"("w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                                    "0123456789abcdef"));
  ASSERT_FALSE(f.ok());
  EXPECT_NE(f.status().message().find("'w' and 'v' overlap"), std::string::npos)
      << f.status().message();
}

TEST(SafetensorsFolderTest, IndexesNameFilesOfTheFolder) {
  const test::TempDir dir;
  const std::string one = file_of(R"({"v":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "ab");
  const std::string two = file_of(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "c");
  test::write_file(dir / "1.safetensors", one);
  test::write_file(dir / "2.safetensors", two);
  const auto open = [&](const std::string& map) {
    test::write_file(dir / "model.safetensors.index.json", "{\"weight_map\":" + map + "}");
    return SafetensorsFolder::open(dir.path().string());
  };
  const auto both = open(R"({"v":"1.safetensors","w":"2.safetensors"})");
  ASSERT_TRUE(both.ok()) << both.status().message();
  ASSERT_NE(both->find("w"), nullptr);
  EXPECT_EQ(both->find("w")->count(), 1);
  EXPECT_EQ(both->find("x"), nullptr);
  EXPECT_FALSE(open(R"({"v":"2.safetensors"})").ok());
  EXPECT_FALSE(open(R"({"v":"../1.safetensors"})").ok());
  EXPECT_FALSE(open(R"({"v":"3.safetensors"})").ok());
  EXPECT_FALSE(open("[]").ok());
}

}  // namespace
}  // namespace reprise::formats

// Tensors in every encoding, and external data.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/onnx/proto.h"
#include "tests/support/paths.h"

namespace reprise::onnx::test {
namespace {

namespace fs = std::filesystem;
using reprise::test::TempDir;
using reprise::test::write_file;

/// The tensor's text, or the error without the file's name.
std::string read(const wire::Tensor& t) {
  TempDir dir;
  const std::string path = dir / "t.pb";
  write_file(path, t.SerializeAsString());
  const auto r = read_tensor_file(path);
  if (!r.ok()) return r.status().message().substr(path.size() + 2);
  graph::Graph g;
  g.add_output(g.add_constant("t", r->tensor));
  const std::string text = graph::print(g);
  const size_t begin = text.find("const t: ") + 9;
  return text.substr(begin, text.find('\n', begin) - begin);
}

wire::Tensor make(int type, std::vector<int64_t> dims) {
  wire::Tensor t;
  set_tensor(t, "t", type, std::move(dims));
  return t;
}

TEST(TensorFile, TypedFields) {
  const auto ints = [](int type) {
    wire::Tensor t = make(type, {2});
    t.add_int32_data(1);
    t.add_int32_data(100);
    return read(t);
  };
  EXPECT_EQ(ints(2), "uint8[2]{1, 100}");
  EXPECT_EQ(ints(3), "int8[2]{1, 100}");
  EXPECT_EQ(ints(4), "uint16[2]{1, 100}");
  EXPECT_EQ(ints(5), "int16[2]{1, 100}");
  EXPECT_EQ(ints(6), "int32[2]{1, 100}");
  wire::Tensor half = make(10, {2});
  half.add_int32_data(0x3c00);
  half.add_int32_data(0xc000);
  EXPECT_EQ(read(half), "float16[2]{1, -2}");
  wire::Tensor bf16 = make(16, {1});
  bf16.add_int32_data(0xbf80);
  EXPECT_EQ(read(bf16), "bfloat16[1]{-1}");
  wire::Tensor boolean = make(9, {2});
  boolean.add_int32_data(1);
  boolean.add_int32_data(0);
  EXPECT_EQ(read(boolean), "bool[2]{true, false}");
  wire::Tensor f64 = make(11, {});
  f64.add_double_data(0.1);
  EXPECT_EQ(read(f64), "float64[]{0.1}");
  wire::Tensor i64 = make(7, {1});
  i64.add_int64_data(INT64_MIN);
  EXPECT_EQ(read(i64), "int64[1]{-9223372036854775808}");
  wire::Tensor u32 = make(12, {1});
  u32.add_uint64_data(4000000000u);
  EXPECT_EQ(read(u32), "uint32[1]{4000000000}");
  wire::Tensor u64 = make(13, {1});
  u64.add_uint64_data(UINT64_MAX);
  EXPECT_EQ(read(u64), "uint64[1]{18446744073709551615}");
  wire::Tensor strings = make(8, {2});
  strings.add_string_data("a");
  strings.add_string_data("");
  EXPECT_EQ(read(strings), "string[2]{\"a\", \"\"}");
  EXPECT_EQ(read(make(1, {0, 3})), "float32[0,3]{}");
}

TEST(TensorFile, LowBitTypes) {
  struct Row {
    int type;
    const char* text;  // of five elements, or nine of two bits
  };
  // Elements share bytes, the first in the lowest bits.
  const std::string packed("\x1f\x87\x03", 3);
  const Row rows[] = {{21, "uint4[5]{15, 1, 7, 8, 3}"},
                      {22, "int4[5]{-1, 1, 7, -8, 3}"},
                      {23, "float4_e2m1fn[5]{15, 1, 7, 8, 3}"},
                      {25, "uint2[9]{3, 3, 1, 0, 3, 1, 0, 2, 3}"},
                      {26, "int2[9]{-1, -1, 1, 0, -1, 1, 0, -2, -1}"},
                      {17, "float8_e4m3fn[3]{31, 135, 3}"},
                      {18, "float8_e4m3fnuz[3]{31, 135, 3}"},
                      {19, "float8_e5m2[3]{31, 135, 3}"},
                      {20, "float8_e5m2fnuz[3]{31, 135, 3}"},
                      {24, "float8_e8m0fnu[3]{31, 135, 3}"}};
  for (const Row& r : rows) {
    const int64_t count = r.type >= 25 ? 9 : r.type >= 21 && r.type <= 23 ? 5 : 3;
    wire::Tensor raw = make(r.type, {count});
    raw.set_raw_data(packed);
    EXPECT_EQ(read(raw), r.text);
    wire::Tensor typed = make(r.type, {count});
    for (const char c : packed) typed.add_int32_data(static_cast<unsigned char>(c));
    EXPECT_EQ(read(typed), r.text);
    raw.set_raw_data(packed + '\0');
    EXPECT_NE(read(raw).find("raw_data has 4 bytes"), std::string::npos) << read(raw);
    typed.set_int32_data(0, 256);
    EXPECT_NE(read(typed).find("cannot hold"), std::string::npos) << read(typed);
    typed.add_int32_data(0);
    EXPECT_NE(read(typed).find("int32_data holds 4 values"), std::string::npos) << read(typed);
  }
  EXPECT_EQ(read(make(22, {0})), "int4[0]{}");
}

TEST(TensorFile, RawData) {
  wire::Tensor t = make(6, {2});
  t.set_raw_data(std::string("\x01\0\0\0\xff\xff\xff\xff", 8));
  EXPECT_EQ(read(t), "int32[2]{1, -1}");
}

TEST(TensorFile, NameIsKept) {
  TempDir dir;
  wire::Tensor t = make(6, {});
  t.add_int32_data(5);
  write_file(dir / "t.pb", t.SerializeAsString());
  const auto r = read_tensor_file(dir / "t.pb");
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->name, "t");
}

TEST(TensorFile, Errors) {
  EXPECT_EQ(read(make(1, {1})), "tensor 't': float_data holds 0 values, but float32[1] needs 1");
  EXPECT_EQ(read(make(27, {1})),
            "tensor 't': data type float6e2m3 is not supported; convert the model to float32, "
            "float16, bfloat16 or int8");
  wire::Tensor sequence;  // SequenceProto: elem_type and tensors
  sequence.set_data_type(1);
  sequence.set_segment(make(1, {0}).SerializeAsString());
  EXPECT_EQ(read(sequence),
            "holds a sequence, an optional or a segmented tensor; only whole tensors are "
            "supported");
  TempDir dir;
  EXPECT_EQ(read_tensor_file(dir / "none.pb").status().code(), Code::Io);
  EXPECT_EQ(read_tensor_file(dir.path()).status().code(), Code::Io);
  write_file(dir / "empty.pb", "");
  EXPECT_EQ(read_tensor_file(dir / "empty.pb").status().message(),
            (dir / "empty.pb").string() + ": the file is empty");
  write_file(dir / "junk.pb", "junk");
  EXPECT_EQ(read_tensor_file(dir / "junk.pb").status().message(),
            (dir / "junk.pb").string() +
                ": is not a tensor file (TensorProto), or the file is truncated or damaged");
}

class ExternalDataTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    write_file(folder_ / "weights.bin", std::string(4, '\0') + std::string("\0\0\x80\x3f", 4));
    write_file(dir_ / "secret.bin", std::string(64, 'x'));
  }
  /// Imports a model whose initialiser float32[1] lies at a location.
  std::string import_at(const std::string& location, const std::string& offset = "",
                        const std::string& length = "") {
    Model m;
    wire::Tensor& t = *m.graph().add_initializer();
    set_tensor(t, "w", kFloat, {1});
    t.set_data_location(1);
    const auto entry = [&](const char* key, const std::string& value) {
      if (value.empty()) return;
      wire::Entry* e = t.add_external_data();
      e->set_key(key);
      e->set_value(value);
    };
    entry("location", location);
    entry("offset", offset);
    entry("length", length);
    m.output("w");
    const std::string path = folder_ / "model.onnx";
    write_file(path, m.bytes());
    const auto g = import_file(path);
    if (g.ok()) return graph::print(**g);
    const std::string prefix = path + ": tensor 'w': ";
    EXPECT_EQ(g.status().message().substr(0, prefix.size()), prefix);
    return g.status().message().substr(std::min(prefix.size(), g.status().message().size()));
  }
  TempDir dir_;
  fs::path folder_ = dir_ / "model";
};

TEST_F(ExternalDataTest, IsRead) {
  const std::string one = "graph g\nconst w: float32[1]{1}\noutput w\n";
  EXPECT_EQ(import_at("weights.bin", "4", "4"), one);
  EXPECT_EQ(import_at("weights.bin", "4"), one);
  EXPECT_EQ(import_at("./weights.bin", "4"), one);
  // Not a multiple of the element's size: the bytes 00 00 00 80 are -0.
  EXPECT_EQ(import_at("weights.bin", "3"), "graph g\nconst w: float32[1]{-0}\noutput w\n");
  fs::create_symlink("weights.bin", folder_ / "link.bin");
  EXPECT_EQ(import_at("link.bin", "4"), one);
}

/// Caches of downloads keep the files of a model in one folder, under other names.
TEST_F(ExternalDataTest, MayLieWhereTheModelsLinkLeads) {
  const std::string one = "graph g\nconst w: float32[1]{1}\noutput w\n";
  ASSERT_EQ(import_at("weights.bin", "4"), one);
  fs::create_directories(dir_ / "blobs");
  fs::create_directories(dir_ / "snapshots" / "1");
  fs::rename(folder_ / "model.onnx", dir_ / "blobs" / "aaa");
  fs::rename(folder_ / "weights.bin", dir_ / "blobs" / "bbb");
  const fs::path snapshot = dir_ / "snapshots" / "1";
  const auto imported = [](const fs::path& path) {
    const auto g = import_file(path.string());
    return g.ok() ? graph::print(**g) : g.status().message();
  };
  fs::create_symlink("../../blobs/aaa", snapshot / "model.onnx");
  fs::create_symlink("../../blobs/bbb", snapshot / "weights.bin");
  EXPECT_EQ(imported(snapshot / "model.onnx"), one);
  // The data may have its name only beside the file to which the link leads.
  fs::remove(snapshot / "weights.bin");
  EXPECT_NE(imported(snapshot / "model.onnx").find("No such file"), std::string::npos);
  fs::rename(dir_ / "blobs" / "bbb", dir_ / "blobs" / "weights.bin");
  EXPECT_EQ(imported(snapshot / "model.onnx"), one);
  // A link to any other place is refused.
  fs::create_symlink("../../secret.bin", snapshot / "weights.bin");
  EXPECT_NE(imported(snapshot / "model.onnx").find("is a link that leaves the model's folder"),
            std::string::npos);
  fs::remove(snapshot / "weights.bin");
  fs::remove(dir_ / "blobs" / "weights.bin");
  fs::create_symlink("../secret.bin", dir_ / "blobs" / "weights.bin");
  EXPECT_NE(imported(snapshot / "model.onnx").find("is a link that leaves the model's folder"),
            std::string::npos);
}

TEST_F(ExternalDataTest, StaysInTheFolder) {
  const std::string refused = ": only files inside the model's folder are read";
  const std::string secret = (dir_ / "secret.bin").string();
  EXPECT_EQ(import_at("../secret.bin"), "external data '../secret.bin'" + refused);
  EXPECT_EQ(import_at("a/../../secret.bin"), "external data 'a/../../secret.bin'" + refused);
  EXPECT_EQ(import_at(secret), "external data '" + secret + "'" + refused);
  EXPECT_EQ(import_at(std::string("weights.bin\0x", 13)),
            "external data 'weights.bin?x'" + refused);
  fs::create_symlink(dir_ / "secret.bin", folder_ / "link.bin");
  EXPECT_EQ(import_at("link.bin"),
            "external data 'link.bin' is a link that leaves the model's folder; copy the file "
            "there");
  fs::create_directory_symlink(dir_.path(), folder_ / "up");
  EXPECT_EQ(import_at("up/secret.bin"),
            "external data 'up/secret.bin' is a link that leaves the model's folder; copy the file "
            "there");
}

TEST_F(ExternalDataTest, SizesAreChecked) {
  EXPECT_EQ(import_at(""), "external data without a location");
  EXPECT_EQ(import_at("none.bin"), "external data 'none.bin': No such file or directory");
  EXPECT_EQ(import_at("weights.bin", "5"),
            "external data 'weights.bin' has 8 bytes, but the tensor needs 4 at offset 5");
  EXPECT_EQ(import_at("weights.bin", "18446744073709551615"),
            "external data 'weights.bin' has 8 bytes, but the tensor needs 4 at offset "
            "18446744073709551615");
  EXPECT_EQ(import_at("weights.bin", "0", "8"), "external data of 8 bytes, but float32[1] needs 4");
  EXPECT_EQ(import_at("weights.bin", "-1"), "external data: offset '-1' is not a size");
  fs::create_directory(folder_ / "folder");
  EXPECT_NE(import_at("folder").find("is not a regular file"), std::string::npos);
}

TEST(ImportFile, NamesTheFile) {
  TempDir dir;
  const std::string path = dir / "m.onnx";
  const auto message = [&](const std::string& bytes) {
    write_file(path, bytes);
    return import_file(path).status().message();
  };
  EXPECT_EQ(message(""), path + ": the file is empty");
  EXPECT_EQ(message("this is not a model"),
            path + ": is not an ONNX model, or the file is truncated or damaged");
  EXPECT_EQ(import_file(dir / "none").status().code(), Code::Io);
  EXPECT_EQ(import_file(dir.path()).status().message(),
            dir.path().string() + ": is not a regular file");
  Model m = relu_model();
  m.node("Foo", {"x"}, {"z"}, "n");
  EXPECT_EQ(message(m.bytes()),
            "node 'n' (Foo, domain 'ai.onnx', version 17) of " + path +
                " is not supported; export the model with other operators, define it as a "
                "model-local function, or add it to codegen/ops (docs/architecture.md says how)");
  fs::resize_file(path, uintmax_t{3} << 30);
  EXPECT_EQ(import_file(path).status().message(),
            path +
                ": larger than 2 GiB, which no protobuf file can be; store the weights as "
                "external data");
}

}  // namespace
}  // namespace reprise::onnx::test

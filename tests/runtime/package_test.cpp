#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/package/header.h"
#include "tests/runtime/sample_package.h"

namespace reprise::package {
namespace {

namespace fs = std::filesystem;

/// A folder of this test alone, removed afterwards.
class PackageFile : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("reprise-" + std::string(info->name()) + "-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::vector<char> sample_bytes() const {
    EXPECT_TRUE(write(sample_package(), path("sample.rpk")).ok());
    std::ifstream in(path("sample.rpk"), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  void save(const std::string& name, const std::vector<char>& bytes) const {
    std::ofstream(path(name), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  /// A CorruptPackage error that names the file and contains the text.
  void expect_refused(const std::string& name, const std::string& text) const {
    const auto p = read(path(name));
    ASSERT_FALSE(p.ok()) << name;
    EXPECT_EQ(p.status().code(), Code::CorruptPackage) << p.status().message();
    EXPECT_NE(p.status().message().find(path(name)), std::string::npos) << p.status().message();
    EXPECT_NE(p.status().message().find(text), std::string::npos) << p.status().message();
  }

  fs::path folder_;
};

/// Bytes at an alignment of 64, as a mapping has.
class Aligned {
 public:
  explicit Aligned(const std::vector<char>& bytes, size_t shift = 0)
      : storage_(std::make_shared<std::vector<char>>(bytes.size() + 64 + shift)) {
    const auto address = reinterpret_cast<uintptr_t>(storage_->data());
    start_ = storage_->data() + (64 - address % 64) % 64 + shift;
    std::copy(bytes.begin(), bytes.end(), start_);
    size_ = bytes.size();
  }
  Result<std::shared_ptr<const Package>> read() const {
    return read_memory({reinterpret_cast<const std::byte*>(start_), size_}, storage_);
  }
  /// Makes the checksums fit again, so that what lies behind them is tested.
  void stamp() {
    Header h;
    std::memcpy(&h, start_, sizeof h);
    h.metadata_hash = hash_bytes({at(sizeof h), h.metadata_bytes});
    h.header_hash =
        hash_bytes({reinterpret_cast<const std::byte*>(&h), offsetof(Header, header_hash)});
    std::memcpy(start_, &h, sizeof h);
  }
  std::byte* at(size_t i) const { return reinterpret_cast<std::byte*>(start_) + i; }

 private:
  std::shared_ptr<std::vector<char>> storage_;
  char* start_;
  size_t size_;
};

void expect_equal(const HostTensor& a, const HostTensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.dims(), b.dims());
  ASSERT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end()));
  if (a.dtype() == DType::String) {
    EXPECT_EQ(a.strings(), b.strings());
  }
}

void expect_equal(const plan::HostCall& a, const plan::HostCall& b) {
  EXPECT_EQ(a.opset, b.opset);
  ASSERT_EQ(a.attrs.size(), b.attrs.size());
  for (const auto& [name, value] : a.attrs) {
    if (const auto* t = std::get_if<HostTensor>(&value)) {
      ASSERT_TRUE(b.attrs.get<HostTensor>(name));
      expect_equal(*t, *b.attrs.get<HostTensor>(name));
      continue;
    }
    const bool same = std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, HostTensor>) {
            return false;
          } else {
            return b.attrs.get<T>(name) && *b.attrs.get<T>(name) == v;
          }
        },
        value);
    EXPECT_TRUE(same) << name;
  }
}

/// print() shows what these do not compare.
void expect_equal(const plan::Plan& a, const plan::Plan& b, const plan::Interface& io) {
  EXPECT_EQ(plan::print(a, io), plan::print(b, io));
  ASSERT_EQ(a.kernels.size(), b.kernels.size());
  for (size_t i = 0; i < a.kernels.size(); ++i) {
    EXPECT_EQ(a.kernels[i].spirv, b.kernels[i].spirv);
    EXPECT_EQ(a.kernels[i].cuda, b.kernels[i].cuda);
    EXPECT_EQ(a.kernels[i].image, b.kernels[i].image);
    EXPECT_EQ(a.kernels[i].usage, b.kernels[i].usage);
    EXPECT_EQ(a.kernels[i].views, b.kernels[i].views);
  }
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    ASSERT_EQ(a.steps[i].what.index(), b.steps[i].what.index());
    if (const auto* call = std::get_if<plan::HostCall>(&a.steps[i].what)) {
      expect_equal(*call, std::get<plan::HostCall>(b.steps[i].what));
    } else {
      EXPECT_EQ(std::get<plan::Launch>(a.steps[i].what).group,
                std::get<plan::Launch>(b.steps[i].what).group);
    }
  }
}

/// The first host call of a plan.
plan::HostCall& first_call(plan::Plan& p) {
  for (plan::Step& s : p.steps)
    if (auto* call = std::get_if<plan::HostCall>(&s.what)) return *call;
  ADD_FAILURE() << "no host call";
  static plan::HostCall none;
  return none;
}

/// Variants have copies of the calls of one node, whose attributes may be larger than weights.
TEST_F(PackageFile, VariantsShareAttributes) {
  Package p = sample_package();
  AttrMap large;
  large.set("ids", std::vector<int64_t>(100'000, 7));
  large.set("names", std::vector<std::string>(100'000, "LEAF"));
  large.set("values", HostTensor(DType::F32, {100'000}));
  first_call(p.host_plan).attrs = std::move(large);
  ASSERT_TRUE(write(p, path("one.rpk")).ok());
  const auto once = fs::file_size(path("one.rpk"));
  ASSERT_GT(once, 1'600'000U);
  p.variants[0].plan = p.host_plan;
  ASSERT_TRUE(write(p, path("two.rpk")).ok());
  EXPECT_LT(fs::file_size(path("two.rpk")), once + 10'000);
  const auto read_back = read(path("two.rpk"));
  ASSERT_TRUE(read_back.ok()) << read_back.status().message();
  const Package& b = **read_back;
  const auto* in_host = std::get_if<plan::HostCall>(&b.host_plan.steps[0].what);
  const auto* in_variant = std::get_if<plan::HostCall>(&b.variants[0].plan.steps[0].what);
  ASSERT_TRUE(in_host && in_variant);
  EXPECT_EQ(in_host->attrs.get<std::vector<int64_t>>("ids"),
            in_variant->attrs.get<std::vector<int64_t>>("ids"))
      << "the values are two copies";
  expect_equal(*in_host, *in_variant);
}

TEST_F(PackageFile, RoundTrip) {
  const Package a = sample_package();
  const Status written = write(a, path("a.rpk"));
  ASSERT_TRUE(written.ok()) << written.message();
  const auto read_back = read(path("a.rpk"));
  ASSERT_TRUE(read_back.ok()) << read_back.status().message();
  const auto unpacked = unpack(*read_back);
  ASSERT_TRUE(unpacked.ok()) << unpacked.status().message();
  const Package& b = **unpacked;
  EXPECT_EQ(a.model_name, b.model_name);
  EXPECT_EQ(a.producer, b.producer);
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(b.io.guards.size(), 1u);
  EXPECT_EQ(a.io.guards[0].b, b.io.guards[0].b);
  EXPECT_EQ(b.io.guards[0].node, "Add_9");
  ASSERT_EQ(b.io.outputs.size(), 3u);
  EXPECT_EQ(b.io.outputs[1].name, "where");
  EXPECT_EQ(b.io.outputs[1].dtype, DType::I64);
  EXPECT_EQ(b.io.outputs[1].shape, a.io.outputs[1].shape);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t i = 0; i < a.weights.size(); ++i) {
    EXPECT_EQ(b.weights[i].dims(), a.weights[i].dims());
    const auto loaded = load_weight(b, i);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const auto before = load_weight(a, i);
    ASSERT_TRUE(before.ok()) << before.status().message();
    expect_equal(*before, *loaded);
    const bool has_parts = a.parts.contains(static_cast<uint32_t>(i));
    EXPECT_EQ(b.weight_hashes[i], has_parts ? 0 : hash_bytes(a.weights[i].bytes()));
  }
  ASSERT_EQ(b.parts.size(), 1u);
  EXPECT_EQ(b.parts.at(6).segments, a.parts.at(6).segments);
  expect_equal(a.host_plan, b.host_plan, a.io);
  ASSERT_EQ(b.variants.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(a.variants[i].name, b.variants[i].name);
    expect_equal(a.variants[i].plan, b.variants[i].plan, a.io);
  }
  const Predicate& needs = b.variants[1].predicate;
  EXPECT_EQ(needs.api, Api::Cuda);
  EXPECT_EQ(needs.cuda_arch, "sm_90");
  EXPECT_TRUE(needs.needs_float16 && needs.needs_float64 && needs.needs_exact_halves &&
              needs.needs_subgroup_shuffle && !needs.needs_int64);
  EXPECT_TRUE(needs.needs_subgroup_extended_types);
  EXPECT_EQ(needs.matrices,
            (std::vector<MmaConfig>{
                {16, 8, 4},
                {16, 8, 32, {MmaType::I8, MmaType::U8, MmaType::I32}, MmaScope::Workgroup, 64}}));
  EXPECT_TRUE(b.variants[0].predicate.matrices.empty());
  EXPECT_TRUE(b.variants[0].predicate.cpu_type && b.variants[0].predicate.needs_int64);
  EXPECT_FALSE(b.variants[0].predicate.needs_float64);
  EXPECT_EQ(b.variants[0].predicate.subgroup_size, 8u);
  EXPECT_EQ(b.explanation.model_nodes, 3);
  EXPECT_EQ(b.explanation.launches_unfused, 5);
  ASSERT_EQ(b.explanation.unfused.size(), 1u);
  EXPECT_EQ(b.explanation.unfused[0].reason, "runs on the host");
  EXPECT_EQ(b.explanation.precision, DType::BF16);
  EXPECT_EQ(b.explanation.narrowed, 2);
  ASSERT_EQ(b.explanation.kept.size(), 1u);
  EXPECT_EQ(b.explanation.kept[0].node, "Exp_3");
  EXPECT_EQ(b.explanation.kept[0].op, "Exp");
  EXPECT_EQ(b.explanation.kept[0].reason, "exponentials overflow");
  EXPECT_EQ(b.explanation.notes, a.explanation.notes);
  EXPECT_TRUE(verify_weights(b).ok());
}

TEST_F(PackageFile, WritingIsDeterministic) {
  const auto first = sample_bytes();
  EXPECT_EQ(first, sample_bytes());
}

TEST_F(PackageFile, LargeWeightsStartOnSegments) {
  const auto bytes = sample_bytes();
  const auto p = read(path("sample.rpk"));
  ASSERT_TRUE(p.ok());
  const auto place_of = [&](size_t index) {
    const HostTensor weight = *load_weight(**p, index);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(weight.bytes().data()) % kWeightAlignment, 0u);
    const auto found = std::search(bytes.begin(), bytes.end(), weight.data<char>(),
                                   weight.data<char>() + weight.bytes().size());
    EXPECT_NE(found, bytes.end());
    return static_cast<size_t>(found - bytes.begin());
  };
  EXPECT_EQ(place_of(0) % kSegmentAlignment, 0u);
}

TEST_F(PackageFile, MemoryNeedsNoAlignment) {
  const auto bytes = sample_bytes();
  for (const size_t shift : {size_t{0}, size_t{1}, size_t{8}}) {
    std::shared_ptr<const Package> p;
    {
      const Aligned memory(bytes, shift);
      auto result = memory.read();
      ASSERT_TRUE(result.ok()) << result.status().message();
      p = *result;
    }
    EXPECT_TRUE(verify_weights(*p).ok());  // the owner keeps the bytes alive
  }
}

TEST_F(PackageFile, AlteredWeightIsFoundByItsHash) {
  auto bytes = sample_bytes();
  bytes[bytes.size() - 5] ^= 1;
  save("altered.rpk", bytes);
  const auto p = read(path("altered.rpk"));
  ASSERT_TRUE(p.ok());
  const Status s = verify_weights(**p);
  EXPECT_EQ(s.code(), Code::CorruptPackage);
  EXPECT_NE(s.message().find("float32[64,512]"), std::string::npos) << s.message();
}

TEST_F(PackageFile, TruncatedAnywhere) {
  const auto bytes = sample_bytes();
  for (size_t part = 1; part < 64; ++part) {
    const auto end = static_cast<std::ptrdiff_t>(bytes.size() * part / 64);
    save("cut.rpk", {bytes.begin(), bytes.begin() + end});
    expect_refused("cut.rpk", "truncated");
  }
  for (std::ptrdiff_t end = 1; end < 200; ++end) {
    save("cut.rpk", {bytes.begin(), bytes.begin() + end});
    expect_refused("cut.rpk", end < 8 ? "not a compiled model" : "truncated");
  }
  auto longer = bytes;
  longer.push_back(0);
  save("long.rpk", longer);
  expect_refused("long.rpk", "follow its end");
}

TEST_F(PackageFile, OtherFiles) {
  save("empty.rpk", {});
  expect_refused("empty.rpk", "is empty");
  std::vector<char> junk(100000);
  std::mt19937 rng(1);
  for (char& c : junk) c = static_cast<char>(rng());
  save("junk.rpk", junk);
  expect_refused("junk.rpk", "not a compiled model");
  const std::string onnx("\x08\x08\x12\x04test:\x08", 9);  // IR version and producer
  save("model.rpk", {onnx.begin(), onnx.end()});
  expect_refused("model.rpk", "ONNX model");
  save("huge.rpk", sample_bytes());
  fs::resize_file(path("huge.rpk"), uintmax_t{1} << 33);  // sparse
  expect_refused("huge.rpk", "follow its end");
  EXPECT_EQ(read(path("missing.rpk")).status().code(), Code::Io);
  EXPECT_EQ(read(folder_.string()).status().code(), Code::Io);
  auto newer = sample_bytes();
  newer[8] = 99;
  Aligned memory(newer);
  memory.stamp();
  EXPECT_NE(memory.read().status().message().find("format version 99"), std::string::npos);
}

TEST_F(PackageFile, OlderVersions) {
  Package without_parts = sample_package();
  without_parts.parts.clear();
  without_parts.weights.pop_back();
  for (const bool has_parts : {false, true}) {
    const std::string name = path("old.rpk");
    ASSERT_TRUE(write(has_parts ? sample_package() : without_parts, name).ok());
    std::ifstream in(name, std::ios::binary);
    const std::vector<char> written{std::istreambuf_iterator<char>(in), {}};
    for (const auto& [version, is_read] :
         {std::pair{4, false}, {5, !has_parts}, {6, true}, {7, true}, {8, false}}) {
      auto bytes = written;
      ASSERT_EQ(bytes[8], 7);
      bytes[8] = static_cast<char>(version);
      Aligned memory(bytes);
      memory.stamp();
      const auto p = memory.read();
      EXPECT_EQ(p.ok(), is_read) << version;
      if (version != 5 || p.ok()) continue;
      EXPECT_NE(p.status().message().find("version 5 of the format has no parts"),
                std::string::npos)
          << p.status().message();
    }
  }
}

/// The table of a segment in the metadata of a package.
class SegmentTable {
 public:
  SegmentTable(const Aligned& memory, size_t index) : memory_(memory) {
    const size_t root = sizeof(Header) + number<uint32_t>(sizeof(Header));
    const size_t segments = target(field(root, kSegments));
    table_ = target(segments + 4 + 4 * index);
  }
  /// Gives a field the place of another one, whose number it has then.
  void alias(size_t name, size_t other) const {
    std::memcpy(memory_.at(entry(table_, name)), memory_.at(entry(table_, other)), 2);
  }
  /// The place of a field in the metadata.
  size_t at(size_t name) const { return field(table_, name); }
  /// What it refers to.
  size_t of(size_t name) const { return target(at(name)); }

 private:
  static constexpr size_t kSegments = 3;
  template <typename T>
  T number(size_t at) const {
    T out{};
    std::memcpy(&out, memory_.at(at), sizeof out);
    return out;
  }
  size_t target(size_t at) const { return at + number<uint32_t>(at); }
  size_t entry(size_t table, size_t name) const {
    return table - static_cast<size_t>(number<int32_t>(table)) + 4 + 2 * name;
  }
  size_t field(size_t table, size_t name) const {
    const auto offset = number<uint16_t>(entry(table, name));
    EXPECT_NE(offset, 0) << name;
    return table + offset;
  }

  const Aligned& memory_;
  size_t table_ = 0;
};

TEST_F(PackageFile, WeightsWithPartsAndBytesAreRefused) {
  // The numbers of the schema.
  constexpr size_t kDtype = 0, kOffset = 2, kSize = 3, kHash = 4, kParts = 10;
  const auto bytes = sample_bytes();
  const auto refused = [&](const std::string& text, const auto& change) {
    Aligned memory(bytes);
    change(memory, SegmentTable(memory, 6));
    memory.stamp();
    const auto p = memory.read();
    ASSERT_FALSE(p.ok()) << text;
    EXPECT_EQ(p.status().code(), Code::CorruptPackage);
    EXPECT_NE(p.status().message().find(text), std::string::npos) << p.status().message();
  };
  for (const size_t name : {kOffset, kHash}) {
    refused("it has parts and bytes",
            [&](const Aligned&, const SegmentTable& segment) { segment.alias(name, kSize); });
  }
  refused("string[2,9] has 72 bytes", [&](const Aligned& memory, const SegmentTable& segment) {
    *memory.at(segment.at(kDtype)) = static_cast<std::byte>(DType::String);
  });
  // An empty list says that the file has the bytes, which are those of another weight here.
  refused("overlap", [&](const Aligned& memory, const SegmentTable& segment) {
    std::memset(memory.at(segment.of(kParts)), 0, 4);
  });
}

TEST_F(PackageFile, AnyFlippedByteOfHeaderOrMetadataIsFound) {
  const auto bytes = sample_bytes();
  Header h;
  std::memcpy(&h, bytes.data(), sizeof h);
  Aligned memory(bytes);
  std::mt19937 rng(2);
  for (size_t i = 0; i < sizeof h + h.metadata_bytes; ++i) {
    const auto flip = static_cast<std::byte>(1 + rng() % 255);
    *memory.at(i) ^= flip;
    const auto p = memory.read();
    ASSERT_FALSE(p.ok()) << "byte " << i;
    ASSERT_EQ(p.status().code(), Code::CorruptPackage);
    *memory.at(i) ^= flip;
  }
  EXPECT_TRUE(memory.read().ok());
}

/// Uses whatever a reader let through, as an executor would.
void use(const Package& p) {
  (void)verify_weights(p);
  for (const auto& [index, parts] : p.parts) {
    std::vector<std::byte> scratch;
    const auto ignore = [](uint64_t, std::span<const std::byte>) { return Status(); };
    (void)load_weight(p, index);
    (void)read_weight(p, index, 4, scratch, ignore);
  }
  std::vector<const plan::Plan*> plans{&p.host_plan};
  for (const Variant& v : p.variants) plans.push_back(&v.plan);
  for (const plan::Plan* plan : plans) {
    ASSERT_FALSE(plan::print(*plan, p.io).empty());
    for (const plan::Weight& w : plan->weights) (void)w.packing.packed_bytes(64, 4);
  }
  for (const Variant& v : p.variants) {
    const auto code = load_kernels(p, v);
    if (!code.ok()) {
      ASSERT_EQ(code.status().code(), Code::CorruptPackage) << code.status().message();
    }
  }
}

void mutate(std::mt19937_64& rng, const Aligned& memory, size_t begin, size_t size) {
  const size_t at = begin + rng() % size;
  const size_t left = begin + size - at;
  switch (rng() % 5) {
    case 0:
      *memory.at(at) = static_cast<std::byte>(rng());
      return;
    case 1:
      *memory.at(at) ^= static_cast<std::byte>(1 << (rng() % 8));
      return;
    case 2: {  // extreme numbers where offsets, lengths and ids lie
      const uint32_t extremes[] = {0,
                                   1,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   0xfffffffc,
                                   static_cast<uint32_t>(size),
                                   static_cast<uint32_t>(rng() % 64)};
      const uint32_t v = extremes[rng() % 8];
      std::memcpy(memory.at(begin + (at - begin) / 4 * 4), &v, std::min<size_t>(4, left));
      return;
    }
    case 3: {
      const size_t n = std::min<size_t>(left, 1 + rng() % 32);
      std::memmove(memory.at(at), memory.at(begin + rng() % (size - n)), n);
      return;
    }
    default:
      std::memset(memory.at(at), rng() % 2 ? 0 : 0xff, std::min<size_t>(left, 1 + rng() % 16));
  }
}

TEST_F(PackageFile, MutatedMetadataWithRightChecksums) {
  const auto bytes = sample_bytes();
  Header h;
  std::memcpy(&h, bytes.data(), sizeof h);
  int refused = 0;
  int accepted = 0;
  for (uint64_t seed = 0; seed < 12000; ++seed) {
    std::mt19937_64 rng(seed);
    Aligned memory(bytes);
    const size_t n = 1 + rng() % 3;
    for (size_t i = 0; i < n; ++i) mutate(rng, memory, sizeof h, h.metadata_bytes);
    if (seed % 8 == 0) {
      // The header's own numbers, but for the magic and the version.
      const size_t field = 12 + rng() % 44;
      *memory.at(field) ^= static_cast<std::byte>(rng());
      Header changed;
      std::memcpy(&changed, memory.at(0), sizeof changed);
      if (changed.metadata_bytes > bytes.size() - sizeof h) continue;  // stamp() could not hash it
    }
    memory.stamp();
    const auto p = memory.read();
    if (p.ok()) {
      ++accepted;
      use(**p);
    } else {
      ++refused;
      ASSERT_EQ(p.status().code(), Code::CorruptPackage) << p.status().message();
      ASSERT_FALSE(p.status().message().empty());
    }
  }
  // Both happen often, or the mutations miss what they aim at.
  EXPECT_GT(refused, 2000);
  EXPECT_GT(accepted, 500);
}

TEST_F(PackageFile, WriteIsAtomic) {
  EXPECT_EQ(write(sample_package(), path("no/such/folder.rpk")).code(), Code::Io);
  const auto before = sample_bytes();
  Package other = sample_package();
  other.model_name = "other";
  ASSERT_TRUE(write(other, path("sample.rpk")).ok());
  EXPECT_EQ((*read(path("sample.rpk")))->model_name, "other");
  // A package that does not verify leaves the file as it is.
  other.host_plan.buffers[plan::BufferId(0)].index = 7;
  EXPECT_EQ(write(other, path("sample.rpk")).code(), Code::CorruptPackage);
  EXPECT_EQ((*read(path("sample.rpk")))->model_name, "other");
  // So does a disk that is full.
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = old_limit;
  small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status full = write(sample_package(), path("sample.rpk"));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(full.code(), Code::Io);
  EXPECT_EQ((*read(path("sample.rpk")))->model_name, "other");
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) files += entry.is_regular_file();
  EXPECT_EQ(files, 1u);
}

TEST(Hash, KnownValues) {
  const auto hash = [](std::string_view s) {
    return hash_bytes({reinterpret_cast<const std::byte*>(s.data()), s.size()});
  };
  EXPECT_EQ(hash(""), 3244421341483603138u);
  EXPECT_EQ(hash("a"), 16629034431890738719u);
  EXPECT_EQ(hash("abc"), 8696274497037089104u);
  EXPECT_EQ(hash("xxhash"), 12271230650071847902u);
  EXPECT_EQ(hash("Call me Ishmael. Some years ago--never mind how long precisely-"),
            4547022040765177961u);
}

}  // namespace
}  // namespace reprise::package

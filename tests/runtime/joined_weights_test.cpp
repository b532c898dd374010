// Weights that are several others side by side.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/package/package.h"
#include "tests/runtime/sample_package.h"
#include "tests/support/paths.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace reprise::package {
namespace {

namespace fs = std::filesystem;

HostTensor random_tensor(DType dtype, std::vector<int64_t> dims, uint32_t seed) {
  HostTensor t(dtype, std::move(dims));
  std::mt19937 random(seed);
  for (std::byte& b : t.mutable_bytes()) b = static_cast<std::byte>(random() % 16);
  return t;
}

/// Adds parts of these sizes along an axis, and the weight that they make up; returns its index.
uint32_t add_joined(Package& p, DType dtype, std::vector<int64_t> dims, uint32_t axis,
                    const std::vector<int64_t>& sizes) {
  WeightParts parts{axis, {}};
  for (const int64_t size : sizes) {
    dims[axis] = size;
    parts.segments.push_back(static_cast<uint32_t>(p.weights.size()));
    p.weights.push_back(random_tensor(dtype, dims, parts.segments.back()));
  }
  dims[axis] = 0;
  for (const int64_t size : sizes) dims[axis] += size;
  const auto index = static_cast<uint32_t>(p.weights.size());
  p.weights.push_back(HostTensor::borrow(dtype, dims, {}, nullptr));
  p.parts[index] = parts;
  return index;
}

/// What the joined weight must be, element by element.
std::vector<std::byte> expected(const Package& p, uint32_t index) {
  const WeightParts& parts = p.parts.at(index);
  const std::vector<int64_t>& dims = p.weights[index].dims();
  const auto element = static_cast<int64_t>(size_of(p.weights[index].dtype()));
  int64_t before = 1, after = element;
  for (size_t d = 0; d < parts.axis; ++d) before *= dims[d];
  for (size_t d = parts.axis + 1; d < dims.size(); ++d) after *= dims[d];
  std::vector<std::byte> out;
  for (int64_t row = 0; row < before; ++row) {
    for (const uint32_t s : parts.segments) {
      const int64_t line = p.weights[s].dims()[parts.axis] * after;
      const std::span<const std::byte> bytes = p.weights[s].bytes();
      out.insert(out.end(), bytes.begin() + row * line, bytes.begin() + (row + 1) * line);
    }
  }
  return out;
}

/// All that read_weight() gives, and whether its pieces begin where they may.
std::vector<std::byte> in_pieces(const Package& p, uint32_t index, uint64_t unit) {
  std::vector<std::byte> out, scratch;
  const Status s =
      read_weight(p, index, unit, scratch, [&](uint64_t offset, std::span<const std::byte> piece) {
        EXPECT_EQ(offset, out.size());
        EXPECT_EQ(offset % unit, 0U);
        out.insert(out.end(), piece.begin(), piece.end());
        return Status();
      });
  EXPECT_TRUE(s.ok()) << s.message();
  return out;
}

class JoinedWeights : public testing::Test {
 protected:
  test::TempDir dir_;
  const std::string path_ = dir_ / "joined.rpk";
  Package p_ = sample_package();

  std::shared_ptr<const Package> written() {
    const Status s = write(p_, path_);
    EXPECT_TRUE(s.ok()) << s.message();
    auto back = read(path_);
    EXPECT_TRUE(back.ok()) << back.status().message();
    return back.ok() ? *back : nullptr;
  }
};

TEST_F(JoinedWeights, AreReadFromTheirParts) {
  const std::vector<uint32_t> joined{add_joined(p_, DType::F32, {1024, 0}, 1, {1000, 8, 600}),
                                     add_joined(p_, DType::F16, {0, 700}, 0, {2000, 16, 3000}),
                                     add_joined(p_, DType::I4, {3000, 0}, 1, {1000, 2000}),
                                     add_joined(p_, DType::I4, {6, 0}, 1, {1, 2}),
                                     add_joined(p_, DType::F32, {3, 0, 5}, 1, {2, 1})};
  const auto back = written();
  ASSERT_TRUE(back);
  EXPECT_TRUE(verify_weights(*back).ok());
  for (const uint32_t index : joined) {
    const std::vector<std::byte> bytes = expected(p_, index);
    const auto line =
        static_cast<uint64_t>(p_.weights[index].dims().back()) * size_of(p_.weights[index].dtype());
    for (const Package* package : {static_cast<const Package*>(&p_), back.get()}) {
      const auto whole = load_weight(*package, index);
      ASSERT_TRUE(whole.ok()) << whole.status().message();
      EXPECT_TRUE(std::ranges::equal(whole->bytes(), bytes)) << index;
      for (const uint64_t unit : {size_of(p_.weights[index].dtype()), line, 64 * line})
        EXPECT_TRUE(in_pieces(*package, index, unit) == bytes) << index << " " << unit;
    }
  }
}

TEST_F(JoinedWeights, TakeNoSpaceInTheFile) {
  const uint32_t index = add_joined(p_, DType::F32, {512, 0}, 1, {512, 512});
  ASSERT_TRUE(written());
  const auto with = fs::file_size(path_);
  p_.parts.erase(index);
  p_.weights.pop_back();
  ASSERT_TRUE(written());
  EXPECT_LE(with, fs::file_size(path_) + 8192);
  EXPECT_GT(with, 2U * 512 * 512 * 4);
}

TEST_F(JoinedWeights, StayJoinedWhenAPackageIsWrittenAgain) {
  const uint32_t index = add_joined(p_, DType::F32, {8, 0}, 1, {8, 16});
  const auto back = written();
  ASSERT_TRUE(back);
  const std::string again = dir_ / "again.rpk";
  ASSERT_TRUE(write(*back, again).ok());
  const auto last = read(again);
  ASSERT_TRUE(last.ok()) << last.status().message();
  EXPECT_EQ((*last)->parts.at(index).segments, p_.parts.at(index).segments);
  EXPECT_TRUE(in_pieces(**last, index, 4) == expected(p_, index));
}

/// Of a part, too, whatever reads it.
TEST_F(JoinedWeights, DamageOfAPartIsFound) {
  const uint32_t index = add_joined(p_, DType::F32, {600, 0}, 1, {600, 600});
  const uint32_t part = p_.parts.at(index).segments[1];
  ASSERT_TRUE(written());
  std::vector<char> bytes(fs::file_size(path_));
  std::ifstream(path_, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  const auto at = std::search(bytes.begin(), bytes.end(), p_.weights[part].data<char>(),
                              p_.weights[part].data<char>() + 4096);
  ASSERT_NE(at, bytes.end());
  at[5000] ^= 1;
  std::ofstream(path_, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  const auto back = read(path_);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(verify_weights(**back).code(), Code::CorruptPackage);
  EXPECT_EQ(load_weight(**back, index).status().code(), Code::CorruptPackage);
  std::vector<std::byte> scratch;
  const auto ignore = [](uint64_t, std::span<const std::byte>) { return Status(); };
  EXPECT_EQ(read_weight(**back, index, 4, scratch, ignore).code(), Code::CorruptPackage);
}

/// Models may have many equal weights, which a package has once.
TEST_F(JoinedWeights, MayHaveOnePartManyTimes) {
  const uint32_t index = add_joined(p_, DType::F32, {8, 0}, 1, {8, 4});
  p_.parts.at(index).segments.assign(1024, p_.parts.at(index).segments[0]);
  p_.weights[index] = HostTensor::borrow(DType::F32, {8, 8192}, {}, nullptr);
  const auto back = written();
  ASSERT_TRUE(back);
  EXPECT_TRUE(in_pieces(*back, index, 4) == expected(p_, index));
}

#ifdef __GLIBC__
/// The bytes that are allocated.
size_t allocated() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_F(JoinedWeights, AreReadWithLittleMemory) {
  constexpr int64_t kParts = 64, kRows = 16, kColumns = 16384;
  if (allocated() == 0) GTEST_SKIP() << "this allocator does not count";
  for (const uint32_t axis : {0U, 1U}) {
    const uint32_t index = add_joined(p_, DType::F32, {kRows, kColumns}, axis, {1, 1});
    WeightParts& parts = p_.parts.at(index);
    parts.segments.assign(kParts, parts.segments[0]);
    p_.weights[parts.segments[0]] = HostTensor(DType::F32, {kRows, kColumns});
    std::vector<int64_t> dims{kRows, kColumns};
    dims[axis] *= kParts;
    p_.weights[index] = HostTensor::borrow(DType::F32, dims, {}, nullptr);
    const auto back = written();
    ASSERT_TRUE(back);
    std::vector<std::byte> scratch;
    const size_t before = allocated();
    size_t most = 0;
    const Status s = read_weight(*back, index, 4, scratch, [&](uint64_t, const auto&) {
      most = std::max(most, allocated() - before);
      return Status();
    });
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_LT(most, size_t{12} << 20) << axis;
  }
}
#endif

/// The file has a weight as the product of another one and factors, but not of one without bytes.
TEST_F(JoinedWeights, AreNoBaseOfOthers) {
  const uint32_t index = add_joined(p_, DType::F32, {64, 0}, 1, {256, 256});
  p_.host_plan.weights[0].segment = index;
  const auto back = written();
  ASSERT_TRUE(back);
  const auto loaded = load_weight(*back, 0);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE(std::ranges::equal(loaded->bytes(), p_.weights[0].bytes()));
}

TEST_F(JoinedWeights, UnsoundOnesAreRefused) {
  struct Wrong {
    const char* what;
    void (*change)(Package&, WeightParts&, HostTensor&);
  };
  const Wrong cases[] = {
      {"do not fit", [](Package&, WeightParts& w, HostTensor&) { w.axis = 2; }},
      {"do not fit", [](Package&, WeightParts& w, HostTensor&) { w.segments.clear(); }},
      {"do not fit", [](Package&, WeightParts& w, HostTensor&) { w.segments.resize(5000, 2); }},
      {"cannot be its part", [](Package&, WeightParts& w, HostTensor&) { w.segments[0] = 999; }},
      {"cannot be its part",
       [](Package& p, WeightParts& w, HostTensor&) {
         w.segments[0] = static_cast<uint32_t>(p.weights.size() - 1);
       }},
      {"does not fit", [](Package&, WeightParts& w, HostTensor&) { w.axis = 0; }},
      {"lines", [](Package&, WeightParts& w, HostTensor&) { w.segments.pop_back(); }},
      {"does not fit",
       [](Package& p, WeightParts& w, HostTensor&) {
         p.weights[w.segments[0]] = random_tensor(DType::I32, {8, 8}, 1);
       }},
      {"lines",
       [](Package&, WeightParts&, HostTensor& form) {
         form = HostTensor::borrow(DType::F32, {8, 25}, {}, nullptr);
       }},
      {"do not fit",
       [](Package&, WeightParts& w, HostTensor& form) {
         w.segments.assign(1025, w.segments[0]);
         form = HostTensor::borrow(DType::F32, {8, 8200}, {}, nullptr);
       }},
      {"the same parts",
       [](Package& p, WeightParts& w, HostTensor& form) {
         const HostTensor same = form;
         p.parts[static_cast<uint32_t>(p.weights.size())] = w;
         p.weights.push_back(same);
       }},
  };
  for (const Wrong& wrong : cases) {
    p_ = sample_package();
    const uint32_t index = add_joined(p_, DType::F32, {8, 0}, 1, {8, 4096});
    wrong.change(p_, p_.parts.at(index), p_.weights[index]);
    const Status s = verify(p_);
    EXPECT_EQ(s.code(), Code::CorruptPackage) << wrong.what;
    EXPECT_NE(s.message().find(wrong.what), std::string::npos) << s.message();
  }
}

}  // namespace
}  // namespace reprise::package

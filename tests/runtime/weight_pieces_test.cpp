// Weights that come to a device by pieces, and weights of few bits, which share bytes in files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "runtime/base/low_bit.h"
#include "runtime/package/package.h"
#include "runtime/weights/packer.h"
#include "runtime/weights/weights.h"
#include "tests/runtime/sample_package.h"
#include "tests/support/packed.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

std::vector<std::byte> random_bytes(size_t count, std::mt19937& random) {
  std::vector<std::byte> out(count);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

int64_t pick(std::mt19937& random, int64_t most) {
  return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
}

/// A matrix, and how it is packed.
struct Form : plan::MatrixShape {
  int64_t tile_n = 0;
};

/// What tiles mean, element by element.
std::vector<std::byte> tiles_by_definition(const Form& w, const HostTensor& raw) {
  const size_t size = size_of(raw.dtype());
  const int64_t tiles = (w.n + w.tile_n - 1) / w.tile_n;
  std::vector<std::byte> out(plan::in_tiles(w, w.tile_n).packed_bytes(raw.bytes().size(), size));
  for (int64_t b = 0; b < w.batch; ++b) {
    for (int64_t k = 0; k < w.k; ++k) {
      for (int64_t n = 0; n < w.n; ++n) {
        const int64_t from = b * w.k * w.n + (w.transposed ? n * w.k + k : k * w.n + n);
        const int64_t to =
            ((b * tiles + n / w.tile_n) * w.k + k) * w.tile_n + n % int64_t{w.tile_n};
        std::copy_n(raw.bytes().data() + from * static_cast<int64_t>(size), size,
                    out.data() + to * static_cast<int64_t>(size));
      }
    }
  }
  return out;
}

/// What tiles of nibbles mean, element by element.
std::vector<std::byte> nibbles_by_definition(const Form& w, const HostTensor& raw) {
  const int64_t tile = w.tile_n, tiles = (w.n + tile - 1) / tile, octets = (w.k + 7) / 8;
  std::vector<std::byte> out(
      plan::in_tiles_of_nibbles(w, w.tile_n).packed_bytes(raw.bytes().size(), 1));
  for (int64_t b = 0; b < w.batch; ++b) {
    for (int64_t k = 0; k < w.k; ++k) {
      for (int64_t n = 0; n < w.n; ++n) {
        const int64_t from = b * w.k * w.n + (w.transposed ? n * w.k + k : k * w.n + n);
        const int64_t vector =
            ((b * tiles + n / tile) * octets + k / 8) * (tile / 4) + n % tile / 4;
        const int64_t to = (vector * 4 + k % 8 / 2) * 8 + k % 2 * 4 + n % 4;
        const std::byte code = raw.bytes()[static_cast<size_t>(from)] & std::byte{15};
        out[static_cast<size_t>(to / 2)] |= code << (to % 2 * 4);
      }
    }
  }
  return out;
}

/// Packs by pieces of random sizes.
std::vector<std::byte> in_pieces(const plan::Packing& packing, const HostTensor& raw,
                                 std::mt19937& random) {
  std::vector<std::byte> out(packing.packed_bytes(raw.bytes().size(), size_of(raw.dtype())),
                             std::byte{0xA5});
  const WeightPacker packer(packing, size_of(raw.dtype()));
  for (uint64_t at = 0; at < raw.bytes().size();) {
    const uint64_t size =
        std::min(packer.unit() * static_cast<uint64_t>(pick(random, 9)), raw.bytes().size() - at);
    packer.add(at, raw.bytes().subspan(at, size), out);
    at += size;
  }
  return out;
}

TEST(WeightPieces, GiveTheSameAsTheWhole) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    Form form;
    form.batch = pick(random, 3);
    form.k = pick(random, 40);
    form.n = pick(random, 40);
    form.tile_n = 4 * pick(random, 8);
    form.transposed = round % 2 == 1;
    const DType types[] = {DType::U8, DType::F16, DType::F32, DType::I64, DType::U4};
    const DType dtype = types[round % 5];
    const bool nibbles = dtype == DType::U4, is_raw = !nibbles && round % 7 == 0;
    plan::Weight w;
    if (!is_raw)
      w.packing = nibbles ? plan::in_tiles_of_nibbles(form, form.tile_n)
                          : plan::in_tiles(form, form.tile_n);
    const std::vector<std::byte> bytes =
        random_bytes(static_cast<size_t>(form.batch * form.k * form.n) * size_of(dtype), random);
    const HostTensor raw = HostTensor::borrow(dtype, {form.batch, form.k, form.n}, bytes, nullptr);
    std::vector<std::byte> whole(w.packing.packed_bytes(bytes.size(), size_of(dtype)),
                                 std::byte{0x5A});
    ASSERT_TRUE(pack_weight(w, raw, whole).ok());
    std::vector<std::byte> parts = in_pieces(w.packing, raw, random);
    if (is_raw) {
      ASSERT_TRUE(std::ranges::equal(std::span(whole).first(bytes.size()), bytes));
    } else {
      const auto defined =
          nibbles ? nibbles_by_definition(form, raw) : tiles_by_definition(form, raw);
      const size_t used =
          nibbles ? defined.size() : static_cast<size_t>(w.packing.count()) * size_of(dtype);
      ASSERT_TRUE(std::ranges::equal(std::span(whole).first(used), std::span(defined).first(used)))
          << round;
      whole.resize(used);  // the rest of the last word is not defined
      parts.resize(used);
    }
    if (is_raw) {
      whole.resize(bytes.size());
      parts.resize(bytes.size());
    }
    ASSERT_EQ(parts, whole) << round;
  }
}

/// The digits of `dim`, perhaps with padding, from the smallest step on.
std::vector<plan::Packing::Part> random_parts(int64_t axis, int64_t dim, std::mt19937& random) {
  std::vector<plan::Packing::Part> out;
  int64_t covered = 1;
  for (int64_t n = pick(random, 3); n > 0; --n) {
    out.push_back({axis, n == 1 ? (dim + covered - 1) / covered : pick(random, 3), covered});
    covered *= out.back().size;
  }
  return out;
}

TEST(WeightPieces, OfAnyPacking) {
  std::mt19937 random(11);
  int padded = 0;
  for (int round = 0; round < 300; ++round) {
    plan::Weight w;
    for (int64_t axis = 0, rank = 1 + pick(random, 2); axis < rank; ++axis) {
      w.packing.dims.push_back(pick(random, 12));
      const auto parts = random_parts(axis, w.packing.dims.back(), random);
      w.packing.parts.insert(w.packing.parts.end(), parts.begin(), parts.end());
    }
    std::ranges::shuffle(w.packing.parts, random);
    const bool shares_words = round % 3 == 0;
    if (shares_words) {  // two of each of the last axes, the lowest digits, in any order
      const auto last = static_cast<int64_t>(w.packing.dims.size()) - 1;
      for (plan::Packing::Part& part : w.packing.parts)
        if (part.axis >= last - 1) part.step *= part.axis == last ? 4 : 2;
      w.packing.bits = 4;
      w.packing.dims[static_cast<size_t>(last)] *= 4;
      w.packing.dims[static_cast<size_t>(last) - 1] *= 2;
      w.packing.dims[static_cast<size_t>(last)] -= pick(random, 4) - 1;
      std::vector<plan::Packing::Part> word{{last, 2, 2}, {last - 1, 2, 1}, {last, 2, 1}};
      std::ranges::shuffle(word, random);
      w.packing.parts.insert(w.packing.parts.end(), word.begin(), word.end());
    }
    ASSERT_TRUE(w.packing.check().ok()) << w.packing.str();
    int64_t count = 1;
    for (const int64_t dim : w.packing.dims) count *= dim;
    const DType dtype = shares_words ? DType::I4 : round % 2 == 0 ? DType::F16 : DType::F64;
    const auto bytes = random_bytes(static_cast<size_t>(count) * size_of(dtype), random);
    const HostTensor raw = HostTensor::borrow(dtype, w.packing.dims, bytes, nullptr);
    const auto used =
        static_cast<size_t>(w.packing.count()) * (shares_words ? 4 : 8 * size_of(dtype)) / 8;
    padded += w.packing.count() > count ? 1 : 0;
    const auto parts = in_pieces(w.packing, raw, random);
    const auto defined = test::packed_by_definition(w.packing, raw);
    ASSERT_EQ(defined.size(), used);
    ASSERT_TRUE(std::ranges::equal(std::span(parts).first(used), defined)) << w.packing.str();
  }
  EXPECT_GT(padded, 100);
}

class StoredPieces : public testing::Test {
 protected:
  std::shared_ptr<const package::Package> write_and_read(std::vector<HostTensor> weights) {
    package::Package p = package::sample_package();
    for (HostTensor& w : weights) p.weights.push_back(std::move(w));
    p.weight_hashes.clear();
    for (const HostTensor& w : p.weights) p.weight_hashes.push_back(package::hash_bytes(w.bytes()));
    own_ = package::sample_package().weights.size();
    const Status written = package::write(p, path_);
    EXPECT_TRUE(written.ok()) << written.message();
    auto read = package::read(path_);
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read.ok() ? *read : nullptr;
  }
  TempDir dir_;
  const std::string path_ = dir_ / "p.rpk";
  size_t own_ = 0;  // index of the first added weight
  std::vector<std::byte> scratch_;
};

TEST_F(StoredPieces, AreReadInOrderAndChecked) {
  std::mt19937 random(3);
  constexpr size_t kBytes = (11U << 20) + 8;
  const std::vector<std::byte> bytes = random_bytes(kBytes, random);
  const auto p = write_and_read({HostTensor::from(DType::I64, {kBytes / 8}, bytes)});
  ASSERT_TRUE(p);
  for (const uint64_t unit : {uint64_t{8}, uint64_t{3000}, uint64_t{kBytes}}) {
    std::vector<std::byte> found;
    size_t pieces = 0;
    const auto use = [&](uint64_t offset, std::span<const std::byte> piece) {
      EXPECT_EQ(offset, found.size());
      EXPECT_EQ(offset % unit, 0U);
      found.insert(found.end(), piece.begin(), piece.end());
      ++pieces;
      return Status();
    };
    ASSERT_TRUE(package::read_weight(*p, own_, unit, scratch_, use).ok());
    EXPECT_TRUE(found == bytes);
    EXPECT_EQ(pieces, unit == kBytes ? 1U : 3U);
  }
  const auto stop = [](uint64_t, std::span<const std::byte>) {
    return Status(Code::OutOfMemory, "full");
  };
  EXPECT_EQ(package::read_weight(*p, own_, 8, scratch_, stop).code(), Code::OutOfMemory);
  EXPECT_EQ(package::read_weight(*p, 99, 8, scratch_, stop).code(), Code::CorruptPackage);

  // Another process changes a byte.
  std::string file = read_file(path_);
  file[file.size() - kBytes / 2] = static_cast<char>(file[file.size() - kBytes / 2] ^ 1);
  {
    const auto out = platform::open_stream(path_, "r+b");
    ASSERT_EQ(std::fwrite(file.data(), 1, file.size(), out.get()), file.size());
  }
  const auto ignore = [](uint64_t, std::span<const std::byte>) { return Status(); };
  const Status changed = package::read_weight(*p, own_, 8, scratch_, ignore);
  EXPECT_EQ(changed.code(), Code::CorruptPackage);
  EXPECT_NE(changed.message().find(path_), std::string::npos) << changed.message();
}

TEST_F(StoredPieces, ElementsOfFewBitsShareBytes) {
  constexpr int64_t kCount = 100001;
  std::vector<HostTensor> weights;
  for (const DType t : {DType::I4, DType::U4, DType::I2, DType::U2, DType::F4E2M1}) {
    std::vector<uint8_t> codes(kCount);
    for (size_t i = 0; i < codes.size(); ++i) {
      const auto code = static_cast<uint8_t>(i * 7 % (size_t{1} << bits_of(t)));
      codes[i] = is_low_bit_int(t) ? low_bit_from_int(t, code) : code;
    }
    weights.push_back(HostTensor::from(t, {kCount}, codes));
  }
  const auto wide = write_and_read({HostTensor(DType::U8, {5 * kCount})});
  const auto wide_bytes = std::filesystem::file_size(path_);
  const auto p = write_and_read(weights);
  ASSERT_TRUE(p && wide);
  EXPECT_LT(std::filesystem::file_size(path_), wide_bytes - 5 * kCount / 2);
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto loaded = package::load_weight(*p, own_ + i);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_EQ(loaded->dtype(), weights[i].dtype());
    EXPECT_TRUE(std::ranges::equal(loaded->bytes(), weights[i].bytes())) << i;
  }
  // In pieces as well.
  HostTensor many(DType::U4, {11, 1000000});
  for (size_t i = 0; i < many.bytes().size(); ++i)
    many.mutable_bytes()[i] = static_cast<std::byte>(i * 7 % 13);
  const auto large = write_and_read({many});
  ASSERT_TRUE(large);
  uint64_t end = 0;
  size_t pieces = 0;
  const Status pieced = package::read_weight(
      *large, own_, 3000, scratch_, [&](uint64_t offset, std::span<const std::byte> piece) {
        EXPECT_EQ(offset, end);
        EXPECT_EQ(offset % 3000, 0U);
        EXPECT_TRUE(std::ranges::equal(piece, many.bytes().subspan(offset, piece.size())));
        end += piece.size();
        ++pieces;
        return Status();
      });
  EXPECT_TRUE(pieced.ok()) << pieced.message();
  EXPECT_EQ(end, many.bytes().size());
  EXPECT_GT(pieces, 1U);
  // Saved again, it is the same.
  const std::string again = dir_ / "again.rpk";
  ASSERT_TRUE(package::write(*large, again).ok());
  EXPECT_EQ(std::filesystem::file_size(again), std::filesystem::file_size(path_));
}

/// Bits that do not count are kept as well.
TEST_F(StoredPieces, OtherCodesOfFewBitsKeepTheirBytes) {
  const HostTensor odd = HostTensor::from(DType::U4, {3}, std::vector<uint8_t>{1, 0xFD, 15});
  const auto p = write_and_read({odd});
  ASSERT_TRUE(p);
  const auto loaded = package::load_weight(*p, own_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE(std::ranges::equal(loaded->bytes(), odd.bytes()));
}

}  // namespace
}  // namespace reprise::test

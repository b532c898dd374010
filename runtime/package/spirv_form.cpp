#include "runtime/package/spirv_form.h"

#include <algorithm>
#include <memory>
#include <string>

#include "runtime/base/varint.h"

namespace reprise::package {
namespace {

constexpr size_t kHeaderWords = 5;
constexpr size_t kBoundWord = 3;
constexpr uint32_t kLongInstruction = 15;
/// An upper bound: numbers have at most 36 bits and take one byte per seven bits, and the opcode
/// and length of the longest instruction take no more.
constexpr uint64_t kMaxBytesPerWord = 8;

/// The opcodes that the form treats specially. It is correct for all others as well.
enum Op : uint32_t {
  kUndef = 1,
  kName = 5,
  kMemberName = 6,
  kExtension = 10,
  kExtInstImport = 11,
  kExtInst = 12,
  kEntryPoint = 15,
  kFirstType = 19,
  kLastType = 39,
  kFirstConstant = 41,
  kConstant = 43,
  kLastConstant = 52,
  kFunction = 54,
  kFunctionEnd = 56,
  kVariable = 59,
  kLoad = 61,
  kStore = 62,
  kCopyMemory = 63,
  kDecorate = 71,
  kMemberDecorate = 72,
  kCompositeExtract = 81,
  kCompositeInsert = 82,
  kControlBarrier = 224,
  kMemoryBarrier = 225,
  kAtomicStore = 228,
  kLoopMerge = 246,
  kSelectionMerge = 247,
  kLabel = 248,
  kBranch = 249,
  kBranchConditional = 250,
  kSwitch = 251,
  kReturn = 253,
  kUnreachable = 255,
};

/// The index of the operand that is the result, counted from 1; 0 if there is none.
uint32_t result_outside_functions(uint32_t op) {
  if ((op >= kFirstType && op <= kLastType) || op == kExtInstImport) return 1;
  return (op >= kFirstConstant && op <= kLastConstant) || op == kVariable || op == kUndef ? 2 : 0;
}

uint32_t result_in_function(uint32_t op) {
  switch (op) {
    case kLabel:
      return 1;
    case kStore:
    case kCopyMemory:
    case kFunctionEnd:
    case kControlBarrier:
    case kMemoryBarrier:
    case kAtomicStore:
    case kLoopMerge:
    case kSelectionMerge:
    case kBranch:
    case kBranchConditional:
    case kSwitch:
    case kReturn:
    case kReturn + 1:  // with a value
    case kUnreachable:
      return 0;
    default:
      return 2;
  }
}

/// Whether an operand is text or the bits of a constant. Such operands have no structure and take
/// four bytes.
bool is_raw(uint32_t op, uint32_t operand) {
  return op == kName || op == kMemberName || op == kExtension || op == kExtInstImport ||
         (op == kEntryPoint && operand > 2) || (op == kConstant && operand > 2);
}

/// Whether an operand of an instruction in a function is a number instead of an id.
bool is_literal(uint32_t op, uint32_t operand) {
  switch (op) {
    case kLoad:
    case kCompositeExtract:
      return operand >= 4;
    case kStore:
    case kLoopMerge:
      return operand >= 3;
    case kSelectionMerge:
      return operand >= 2;
    case kExtInst:
      return operand == 4;
    case kFunction:
      return operand == 3;
    case kCompositeInsert:
      return operand >= 5;
    default:
      return false;
  }
}

/// Encodes numbers as bytes, in memory that has room for all of them.
class Writer {
 public:
  explicit Writer(std::byte* begin) : at_(begin) {}
  bool number(uint64_t& v) {
    at_ = VarintWriter<std::vector<std::byte>>::put(at_, v);
    return true;
  }
  bool raw(uint32_t& v) {
    for (int shift = 0; shift < 32; shift += 8) *at_++ = static_cast<std::byte>(v >> shift);
    return true;
  }
  std::byte* end() const { return at_; }

 private:
  std::byte* at_;
};

/// Decodes numbers from bytes. Its functions return false if the bytes end or are not those of a
/// Writer.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool number(uint64_t& v) {
    v = 0;
    for (int shift = 0; shift < 63 && at_ < bytes_.size(); shift += 7) {
      const auto b = static_cast<uint64_t>(bytes_[at_++]);
      v |= (b & 127) << shift;
      if (b < 128) return true;
    }
    return false;
  }
  bool raw(uint32_t& v) {
    if (bytes_.size() - at_ < 4) return false;
    v = 0;
    for (int shift = 0; shift < 32; shift += 8) v |= static_cast<uint32_t>(bytes_[at_++]) << shift;
    return true;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

constexpr bool writes(const Writer&) {
  return true;
}
constexpr bool writes(const Reader&) {
  return false;
}

/// The traversal of a module for both directions: a Writer encodes each word, a Reader decodes it.
template <typename Coder>
class Form {
 public:
  Form(std::span<uint32_t> words, Coder& coder) : words_(words), coder_(coder) {}

  bool run() {
    size_t i = 0;
    for (; i < std::min(words_.size(), kHeaderWords); ++i)
      if (!plain(words_[i])) return false;
    if (i < kHeaderWords) return true;
    // Every id takes more than one word, so no valid module has a larger bound.
    globals_.assign(std::min<size_t>(words_[kBoundWord], words_.size()), 0);
    while (i < words_.size()) {
      if (!opcode(words_[i])) return false;
      const size_t length = std::max<size_t>(words_[i] >> 16, 1);
      const auto whole = words_.subspan(i, std::min(length, words_.size() - i));
      if (!(in_function_ ? local(whole) : global(whole))) return false;
      i += length;
    }
    return true;
  }

 private:
  bool opcode(uint32_t& word) {
    const uint32_t length = word >> 16;
    uint64_t first = uint64_t{word & 0xffff} << 4 | std::min(length, kLongInstruction);
    uint64_t more = length;
    if (!coder_.number(first)) return false;
    if ((first & 15) < kLongInstruction) {
      more = first & 15;
    } else if (!coder_.number(more)) {
      return false;
    }
    if (first >> 4 > 0xffff || more > 0xffff) return false;
    word = static_cast<uint32_t>(more << 16 | first >> 4);
    in_function_ = in_function_ || first >> 4 == kFunction;
    return true;
  }

  bool global(std::span<uint32_t> w) {
    const uint32_t op = w[0] & 0xffff;
    const uint32_t result = result_outside_functions(op);
    for (uint32_t k = 1; k < w.size(); ++k) {
      bool ok = false;
      if (k == result) {
        ok = distance(w[k], last_);
        last_ = w[k];
        if (last_ < globals_.size() && globals_[last_] == 0) {
          by_place_.push_back(last_);
          globals_[last_] = static_cast<uint32_t>(by_place_.size());
        }
      } else if (is_raw(op, k)) {
        ok = coder_.raw(w[k]);
      } else if ((op == kDecorate || op == kMemberDecorate) && k == 1) {
        ok = distance(w[k], decorated_);
        decorated_ = w[k];
      } else if (op == kDecorate || op == kMemberDecorate) {
        ok = plain(w[k]);
      } else {
        ok = operand(w[k]);
      }
      if (!ok) return false;
    }
    return true;
  }

  bool local(std::span<uint32_t> w) {
    const uint32_t op = w[0] & 0xffff;
    const uint32_t result = result_in_function(op);
    for (uint32_t k = 1; k < w.size(); ++k) {
      const bool ok = k == result         ? distance(w[k], last_)
                      : is_literal(op, k) ? plain(w[k])
                                          : operand(w[k]);
      if (!ok) return false;
      if (k == result) last_ = w[k];
    }
    return true;
  }

  bool plain(uint32_t& word) {
    uint64_t v = word;
    if (!coder_.number(v) || v > UINT32_MAX) return false;
    word = static_cast<uint32_t>(v);
    return true;
  }

  /// The distance from `from` + 1, which is usually the next id, with the sign in the lowest bit.
  bool distance(uint32_t& word, uint32_t from) {
    const int64_t d = int64_t{word} - from - 1;
    uint64_t v = d < 0 ? static_cast<uint64_t>(-d) * 2 - 1 : static_cast<uint64_t>(d) * 2;
    return coder_.number(v) && undo(v, from, word);
  }

  /// The index of a type, constant or global variable, or the distance to the last result.
  bool operand(uint32_t& word) {
    const uint32_t place = writes(coder_) && word < globals_.size() ? globals_[word] : 0;
    const int64_t d = int64_t{word} - last_ - 1;
    const uint64_t signed_distance =
        d < 0 ? static_cast<uint64_t>(-d) * 2 - 1 : static_cast<uint64_t>(d) * 2;
    uint64_t v = place > 0 ? uint64_t{place} * 2 : signed_distance * 2 + 1;
    if (!coder_.number(v)) return false;
    if (v % 2 == 1) return undo(v / 2, last_, word);
    if (v == 0 || v / 2 > by_place_.size()) return false;
    word = by_place_[v / 2 - 1];
    return true;
  }

  static bool undo(uint64_t v, uint32_t from, uint32_t& word) {
    if (v > uint64_t{1} << 34) return false;
    const auto half = static_cast<int64_t>((v + 1) / 2);
    const int64_t sum = int64_t{from} + 1 + (v % 2 == 1 ? -half : half);
    if (sum < 0 || sum > UINT32_MAX) return false;
    word = static_cast<uint32_t>(sum);
    return true;
  }

  std::span<uint32_t> words_;
  Coder& coder_;
  std::vector<uint32_t> globals_;   // by id: the index, counted from 1, or 0
  std::vector<uint32_t> by_place_;  // by index: the id
  uint32_t last_ = 0, decorated_ = 0;
  bool in_function_ = false;
};

}  // namespace

uint64_t max_compact_bytes(uint64_t count) {
  return count * kMaxBytesPerWord;
}

std::vector<std::byte> compact_spirv(std::span<const uint32_t> words) {
  std::vector<uint32_t> copy(words.begin(), words.end());
  const auto room = std::make_unique_for_overwrite<std::byte[]>(max_compact_bytes(copy.size()));
  Writer writer(room.get());
  Form<Writer>(copy, writer).run();
  return {room.get(), writer.end()};
}

Result<std::vector<uint32_t>> expand_spirv(std::span<const std::byte> bytes, size_t count) {
  std::vector<uint32_t> words(count);
  Reader reader(bytes);
  if (!Form<Reader>(words, reader).run() || !reader.at_end())
    return corrupt_package("its SPIR-V does not have the form that packages use");
  return words;
}

}  // namespace reprise::package

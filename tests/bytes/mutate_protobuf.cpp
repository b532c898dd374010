// Protobuf's wire format says where fields lie, not what they mean: a length-delimited field is
// taken for a message if it reads as one. https://protobuf.dev/programming-guides/encoding/
#include <optional>
#include <vector>

#include "tests/bytes/mutators.h"

namespace reprise::test {
namespace {

enum Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint64_t number = 0;
  Wire wire = kVarint;
  uint64_t value = 0;         // kVarint, kFixed32, kFixed64
  std::string bytes;          // kBytes, unless it is a message
  std::vector<Field> fields;  // of a message
  bool message = false;
};

bool read_varint(const std::string& in, size_t& at, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && at < in.size(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in[at++]);
    value |= uint64_t{byte & 0x7FU} << shift;
    if ((byte & 0x80U) == 0) return true;
  }
  return false;
}

void write_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out += static_cast<char>(value | 0x80U);
  out += static_cast<char>(value);
}

bool read_fixed(const std::string& in, size_t& at, size_t size, uint64_t& value) {
  if (in.size() - at < size) return false;
  value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<uint8_t>(in[at + i])} << (8 * i);
  at += size;
  return true;
}

constexpr int kMaxDepth = 20;

std::optional<std::vector<Field>> decode(const std::string& in, int depth) {
  std::vector<Field> out;
  for (size_t at = 0; at < in.size();) {
    Field f;
    uint64_t tag = 0;
    if (!read_varint(in, at, tag) || tag >> 3U == 0 || tag >> 3U > 536870911) return std::nullopt;
    f.number = tag >> 3U;
    f.wire = static_cast<Wire>(tag & 7U);
    bool ok = false;
    switch (f.wire) {
      case kVarint:
        ok = read_varint(in, at, f.value);
        break;
      case kFixed64:
        ok = read_fixed(in, at, 8, f.value);
        break;
      case kFixed32:
        ok = read_fixed(in, at, 4, f.value);
        break;
      case kBytes: {
        uint64_t size = 0;
        ok = read_varint(in, at, size) && size <= in.size() - at;
        if (!ok) break;
        f.bytes = in.substr(at, size);
        at += size;
        if (depth >= kMaxDepth || f.bytes.empty()) break;
        if (auto inner = decode(f.bytes, depth + 1)) {
          f.fields = std::move(*inner);
          f.message = true;
        }
        break;
      }
    }
    if (!ok) return std::nullopt;
    out.push_back(std::move(f));
  }
  return out;
}

std::string encode(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& f : fields) {
    write_varint(out, f.number << 3U | f.wire);
    switch (f.wire) {
      case kVarint:
        write_varint(out, f.value);
        break;
      case kFixed64:
      case kFixed32:
        for (unsigned i = 0; i < (f.wire == kFixed64 ? 8U : 4U); ++i)
          out += static_cast<char>(f.value >> (8 * i));
        break;
      case kBytes: {
        const std::string body = f.message ? encode(f.fields) : f.bytes;
        write_varint(out, body.size());
        out += body;
        break;
      }
    }
  }
  return out;
}

/// Every list of fields, the innermost ones as likely as the others.
void collect(std::vector<Field>& fields, std::vector<std::vector<Field>*>& lists) {
  if (!fields.empty()) lists.push_back(&fields);
  for (Field& f : fields) collect(f.fields, lists);
}

void change_value(Field& f, const std::vector<std::vector<Field>*>& lists, Random& random) {
  if (f.wire != kBytes) {
    f.value = random() % 4 == 0 ? random() : static_cast<uint64_t>(edge_number(random));
    return;
  }
  const std::vector<Field>& others = *lists[below(random, lists.size())];
  const Field& other = others[below(random, others.size())];
  if (random() % 2 == 0 && other.wire == kBytes) {
    const Field copy = other;  // `other` may lie in f
    f.bytes = copy.bytes;
    f.fields = copy.fields;
    f.message = copy.message;
  } else {
    f.bytes = mutate_bytes(f.message ? encode(f.fields) : f.bytes, random);
    f.fields.clear();
    f.message = false;
  }
}

void change_fields(std::vector<Field>& root, Random& random) {
  std::vector<std::vector<Field>*> lists;
  collect(root, lists);
  if (lists.empty()) return;
  std::vector<Field>& list = *lists[below(random, lists.size())];
  const size_t at = below(random, list.size());
  switch (random() % 6) {
    case 0:
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1: {
      Field copy = list[at];
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(below(random, list.size() + 1)),
                  std::move(copy));
      break;
    }
    case 2:
      std::swap(list[at], list[below(random, list.size())]);
      break;
    case 3: {
      const std::vector<Field>& others = *lists[below(random, lists.size())];
      Field copy = others[below(random, others.size())];
      list.push_back(std::move(copy));
      break;
    }
    default:
      change_value(list[at], lists, random);
      break;
  }
}

}  // namespace

std::string mutate_protobuf(const std::string& bytes, Random& random) {
  auto fields = decode(bytes, 0);
  if (!fields || fields->empty() || random() % 16 == 0) return mutate_bytes(bytes, random);
  for (size_t changes = 1 + below(random, 3); changes > 0; --changes)
    change_fields(*fields, random);
  return encode(*fields);
}

}  // namespace reprise::test

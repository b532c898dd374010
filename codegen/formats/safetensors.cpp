#include "codegen/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include "codegen/formats/aligned.h"
#include "codegen/formats/json.h"
#include "runtime/platform/file.h"
#include "runtime/platform/path.h"

namespace reprise::formats {

namespace {

constexpr std::pair<std::string_view, DType> kDTypes[] = {
    {"F64", DType::F64},          {"F32", DType::F32},
    {"F16", DType::F16},          {"BF16", DType::BF16},
    {"F8_E4M3", DType::F8E4M3FN}, {"F8_E5M2", DType::F8E5M2},
    {"I64", DType::I64},          {"I32", DType::I32},
    {"I16", DType::I16},          {"I8", DType::I8},
    {"U64", DType::U64},          {"U32", DType::U32},
    {"U16", DType::U16},          {"U8", DType::U8},
    {"BOOL", DType::Bool}};

constexpr size_t kLengthBytes = 8;
constexpr size_t kMostRank = 8;
constexpr const char* kIndex = "model.safetensors.index.json";

Status invalid(const std::string& name, const std::string& what) {
  return {Code::InvalidModel, name + ": " + what};
}

/// Where the bytes of a tensor lie behind the header.
struct Place {
  uint64_t begin = 0, end = 0;
  size_t entry = 0;
};

struct Header {
  Json json;
  std::span<const std::byte> data;
};

Result<Header> header_of(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kLengthBytes)
    return invalid(name, "the file has " + std::to_string(bytes.size()) +
                             " bytes, which is too few for a file of safetensors");
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  if (length > bytes.size() - kLengthBytes)
    return invalid(name, "the header has " + std::to_string(length) + " bytes, but " +
                             std::to_string(bytes.size() - kLengthBytes) + " follow");
  const auto size = static_cast<size_t>(length);
  const auto text = bytes.subspan(kLengthBytes, size);
  RP_ASSIGN(Json json,
            Json::parse({reinterpret_cast<const char*>(text.data()), text.size()}, name));
  RP_TRY(json.object().status());
  return Header{std::move(json), bytes.subspan(kLengthBytes + size)};
}

/// The tensor of a member of the header.
Result<HostTensor> tensor_of(const Json& member, std::span<const std::byte> data,
                             const std::shared_ptr<const void>& owner, Place& place) {
  RP_ASSIGN(const Json type, member.at("dtype"));
  RP_ASSIGN(const std::string_view type_name, type.text());
  const auto* const known =
      std::ranges::find_if(kDTypes, [&](const auto& t) { return t.first == type_name; });
  if (known == std::end(kDTypes)) return type.error("is not a dtype that is supported");
  RP_ASSIGN(const Json shape, member.at("shape"));
  RP_TRY(shape.array().status());
  if (shape.size() > kMostRank) return shape.error("has more than 8 dims");
  std::vector<int64_t> dims;
  dims.reserve(shape.size());
  for (const Json& item : shape.items()) {
    RP_ASSIGN(dims.emplace_back(), item.integer(0, int64_t{1} << 40));
  }
  const auto count = checked_element_count(dims, known->second);
  if (!count.ok()) return shape.error(count.status().message());
  RP_ASSIGN(const Json offsets, member.at("data_offsets"));
  RP_TRY(offsets.array().status());
  if (offsets.size() != 2) return offsets.error("must have two items");
  std::array<int64_t, 2> ends{};
  size_t i = 0;
  for (const Json& item : offsets.items()) {
    RP_ASSIGN(ends[i], item.integer(0, static_cast<int64_t>(data.size())));
    ++i;
  }
  const size_t bytes = static_cast<size_t>(*count) * size_of(known->second);
  if (ends[1] < ends[0] || static_cast<size_t>(ends[1] - ends[0]) != bytes)
    return offsets.error("must be " + std::to_string(bytes) + " bytes apart, for " +
                         describe(known->second, dims));
  place.begin = static_cast<uint64_t>(ends[0]);
  place.end = static_cast<uint64_t>(ends[1]);
  return aligned_tensor(known->second, std::move(dims),
                        data.subspan(static_cast<size_t>(ends[0]), bytes), owner);
}

}  // namespace

Result<Safetensors> Safetensors::parse(std::span<const std::byte> bytes,
                                       const std::shared_ptr<const void>& owner,
                                       const std::string& name) {
  RP_ASSIGN(const Header header, header_of(bytes, name));
  Safetensors out;
  std::vector<Place> places;
  out.tensors_.reserve(header.json.size());
  places.reserve(header.json.size());
  for (const Json& member : header.json.items()) {
    if (member.key() == "__metadata__") continue;
    Place place;
    place.entry = out.tensors_.size();
    RP_ASSIGN(HostTensor tensor, tensor_of(member, header.data, owner, place));
    out.tensors_.push_back({std::string(member.key()), std::move(tensor)});
    places.push_back(place);
  }
  std::ranges::sort(places, {}, [](const Place& p) { return std::pair(p.begin, p.end); });
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i].begin >= places[i - 1].end) continue;
    return invalid(name, "the bytes of '" + out.tensors_[places[i - 1].entry].name + "' and '" +
                             out.tensors_[places[i].entry].name + "' overlap");
  }
  return out;
}

Result<Safetensors> Safetensors::open(const std::string& path) {
  const auto file = platform::InputFile::open(path);
  if (!file.ok()) return file.status().with_context(path);
  const auto memory = file->map();
  if (!memory.ok()) return memory.status().with_context(path);
  return parse(**memory, *memory, path);
}

Status SafetensorsFolder::add(const std::string& path) {
  RP_ASSIGN(const Safetensors file, Safetensors::open(path));
  for (const Safetensors::Entry& e : file.tensors()) {
    if (!tensors_.emplace(e.name, e.tensor).second)
      return invalid(path, "the tensor '" + e.name + "' is in another file of the folder as well");
  }
  return {};
}

Result<SafetensorsFolder> SafetensorsFolder::open(const std::string& folder) {
  SafetensorsFolder out;
  const auto file_in = [&](const std::string& name) {
    return utf8_text(utf8_path(folder) / utf8_path(name));
  };
  const std::string one = file_in("model.safetensors"), index = file_in(kIndex);
  std::error_code ignored;
  if (std::filesystem::is_regular_file(utf8_path(one), ignored)) {
    RP_TRY(out.add(one));
    return out;
  }
  if (!std::filesystem::is_regular_file(utf8_path(index), ignored))
    return Status(Code::Io, "'" + folder + "' has neither model.safetensors nor " + kIndex);
  RP_ASSIGN(const Json json, Json::read(index));
  RP_ASSIGN(const Json map, json.at("weight_map"));
  RP_TRY(map.object().status());
  std::set<std::string> files;
  for (const Json& item : map.items()) {
    RP_ASSIGN(const std::string_view name, item.text());
    if (name.empty() || name.find_first_of("/\\:") != std::string_view::npos || name[0] == '.')
      return item.error("must be the name of a file in the folder");
    files.emplace(name);
  }
  for (const std::string& name : files) RP_TRY(out.add(file_in(name)));
  for (const Json& item : map.items()) {
    if (out.find(item.key()) == nullptr)
      return item.error("is a file that does not have the tensor");
  }
  return out;
}

const HostTensor* SafetensorsFolder::find(std::string_view name) const {
  const auto at = tensors_.find(std::string(name));
  return at == tensors_.end() ? nullptr : &at->second;
}

}  // namespace reprise::formats

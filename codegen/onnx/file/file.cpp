#include "codegen/onnx/file/file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <vector>

#include "codegen/onnx/file/raw_data.h"
#include "runtime/base/file_kind.h"
#include "runtime/platform/file.h"
#include "runtime/platform/path.h"

namespace reprise::onnx {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxProtobuf = std::numeric_limits<int32_t>::max();  // protobuf's own limit
// A body inside a body takes three levels. This also bounds our own recursion.
constexpr int kMaxMessageDepth = 100;

using platform::InputFile;

/// The bytes of a file, as protobuf reads them.
class Stream : public google::protobuf::io::CopyingInputStream {
 public:
  explicit Stream(const InputFile& file) : file_(file) {}
  int Read(void* buffer, int size) override {
    const auto n = file_.read_some(
        at_, {static_cast<std::byte*>(buffer), static_cast<size_t>(std::max(size, 0))});
    if (!n.ok()) return -1;
    at_ += *n;
    return static_cast<int>(*n);
  }

 private:
  const InputFile& file_;
  uint64_t at_ = 0;
};

Result<InputFile> open_file(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file.ok()) return file.status().with_context(path);
  return file;
}

template <typename Message>
bool parse(google::protobuf::io::CodedInputStream& in, Message& message) {
  in.SetRecursionLimit(kMaxMessageDepth);
  return message.ParseFromCodedStream(&in) && in.ConsumedEntireMessage();
}

/// What the file is instead of a protobuf; empty if that is not known.
std::string kind_of(const InputFile& file) {
  std::array<std::byte, kFileKindBytes> start{};
  const auto size = file.read_some(0, start);
  return file_kind(std::span(start).first(size.ok() ? *size : 0));
}

}  // namespace

template <typename Message>
Result<std::shared_ptr<const Message>> read_message(const std::string& path, const char* what) {
  RP_ASSIGN(const InputFile file, open_file(path));
  if (file.size() == 0) return invalid_model(path + ": the file is empty");
  if (file.size() > static_cast<uint64_t>(kMaxProtobuf)) {
    return invalid_model(path +
                         ": larger than 2 GiB, which no protobuf file can be; store the "
                         "weights as external data");
  }
  const std::string other = kind_of(file);
  if (!other.empty()) return invalid_model(path + ": is not " + what + ", but " + other);
  Stream bytes(file);
  google::protobuf::io::CopyingInputStreamAdaptor stream(&bytes, 1 << 20);
  google::protobuf::io::CodedInputStream in(&stream);
  auto message = std::make_shared<Message>();
  if (!parse(in, *message)) {
    return invalid_model(path + ": is not " + what + ", or the file is truncated or damaged");
  }
  return std::shared_ptr<const Message>(std::move(message));
}

template <typename Message>
Result<std::shared_ptr<const Message>> parse_message(std::span<const std::byte> bytes,
                                                     const std::string& thing, const char* what) {
  if (bytes.empty()) return invalid_model("the " + thing + " is empty");
  const std::string other = file_kind(bytes);
  if (!other.empty()) return invalid_model("the " + thing + " is " + other);
  if (bytes.size() > static_cast<size_t>(kMaxProtobuf)) {
    return invalid_model("the " + thing + " is larger than 2 GiB, which no protobuf can be");
  }
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  auto message = std::make_shared<Message>();
  if (!parse(in, *message)) {
    return invalid_model(std::string("the bytes are not ") + what +
                         ", or they are truncated or damaged");
  }
  return std::shared_ptr<const Message>(std::move(message));
}

std::string shown(const std::string& name) {
  constexpr size_t kMax = 200;
  std::string out = "'";
  for (char c : name.substr(0, kMax)) {
    const auto u = static_cast<unsigned char>(c);
    out += u < 0x20 || u == 0x7f ? '?' : c;
  }
  return out + (name.size() > kMax ? "...'" : "'");
}

namespace {

/// Notes the memory of the initialisers' raw_data. A file that has changed meanwhile is found when
/// the bytes are read again.
void note_raw_data(const std::string& path, const std::shared_ptr<const wire::Model>& model,
                   platform::FileBytes& files) {
  auto opened = InputFile::open(path);
  if (!opened.ok()) return;
  const auto file = std::make_shared<const InputFile>(*std::move(opened));
  const std::vector<RawData> found = find_raw_data(*file);
  const auto& initialisers = model->graph().initializer();
  if (found.size() != static_cast<size_t>(initialisers.size())) return;
  for (int i = 0; i < initialisers.size(); ++i) {
    const std::string& raw = initialisers.Get(i).raw_data();
    const RawData& at = found[static_cast<size_t>(i)];
    if (raw.size() == at.size) files.add({file, at.offset}, std::as_bytes(std::span(raw)), model);
  }
}

}  // namespace

template Result<std::shared_ptr<const wire::Sequence>> read_message(const std::string&,
                                                                    const char*);
template Result<std::shared_ptr<const wire::Optional>> read_message(const std::string&,
                                                                    const char*);
template Result<std::shared_ptr<const wire::Map>> read_message(const std::string&, const char*);
template Result<std::shared_ptr<const wire::Sequence>> parse_message(std::span<const std::byte>,
                                                                     const std::string&,
                                                                     const char*);
template Result<std::shared_ptr<const wire::Optional>> parse_message(std::span<const std::byte>,
                                                                     const std::string&,
                                                                     const char*);
template Result<std::shared_ptr<const wire::Map>> parse_message(std::span<const std::byte>,
                                                                const std::string&, const char*);

Result<std::shared_ptr<const wire::Model>> read_model(const std::string& path,
                                                      platform::FileBytes* files) {
  RP_ASSIGN(std::shared_ptr<const wire::Model> model,
            read_message<wire::Model>(path, "an ONNX model"));
  if (files) note_raw_data(path, model, *files);
  return model;
}

Result<std::shared_ptr<const wire::Model>> parse_model(std::span<const std::byte> bytes) {
  return parse_message<wire::Model>(bytes, "model", "an ONNX model");
}

Result<std::shared_ptr<const wire::Tensor>> read_tensor(const std::string& path) {
  return read_message<wire::Tensor>(path, "a tensor file (TensorProto)");
}

Result<std::shared_ptr<const wire::Tensor>> parse_tensor(std::span<const std::byte> bytes) {
  return parse_message<wire::Tensor>(bytes, "tensor", "a tensor (TensorProto)");
}

namespace {

bool is_inside(const fs::path& folder, const fs::path& file) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
         folder.end();
}

/// The folder of a file, and that of the file to which it leads.
Result<std::vector<fs::path>> folders_of(const std::string& file) {
  const fs::path given = utf8_path(file);
  std::error_code error;
  const fs::path parent = given.has_parent_path() ? given.parent_path() : utf8_path(".");
  std::vector<fs::path> folders{fs::canonical(parent, error)};
  if (error) return Status(Code::Io, utf8_text(parent) + ": " + error.message());
  const fs::path real = fs::canonical(given, error);
  if (!error && real.parent_path() != folders[0]) folders.push_back(real.parent_path());
  return folders;
}

/// The file at a relative path in one of the folders, without links.
Result<fs::path> find_inside(const std::vector<fs::path>& folders, const std::string& location) {
  std::error_code first;
  for (const fs::path& folder : folders) {
    std::error_code error;
    fs::path target = fs::canonical(folder / utf8_path(location), error);
    if (error && !first) first = error;
    if (error) continue;
    if (std::ranges::any_of(folders, [&](const auto& f) { return is_inside(f, target); }))
      return target;
    return invalid_model("external data " + shown(location) +
                         " is a link that leaves the model's folder; copy the file there");
  }
  return Status(Code::Io, "external data " + shown(location) + ": " + first.message());
}

}  // namespace

Result<Mapped> ExternalData::open(const std::string& location) {
  if (file_.empty()) {
    return invalid_model("external data " + shown(location) +
                         " of a model in memory; import the model from its file");
  }
  auto known = files_.find(location);
  if (known != files_.end()) return known->second;
  const fs::path relative = utf8_path(location);
  const bool climbs = std::find(relative.begin(), relative.end(), "..") != relative.end();
  if (location.empty() || relative.has_root_path() || climbs ||
      location.find('\0') != std::string::npos) {
    return invalid_model("external data " + shown(location) +
                         ": only files inside the model's folder are read");
  }
  RP_ASSIGN(const std::vector<fs::path> folders, folders_of(file_));
  RP_ASSIGN(const fs::path target, find_inside(folders, location));
  RP_ASSIGN(InputFile file, open_file(utf8_text(target)));
  auto bytes = file.map();
  if (!bytes.ok()) return bytes.status().with_context(utf8_text(target));
  Mapped mapped;
  mapped.bytes = **bytes;
  mapped.owner = std::move(*bytes);
  if (noted_)
    noted_->add({std::make_shared<const InputFile>(std::move(file)), 0}, mapped.bytes,
                mapped.owner);
  files_.emplace(location, mapped);
  return mapped;
}

}  // namespace reprise::onnx

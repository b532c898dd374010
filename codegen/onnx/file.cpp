#include "codegen/onnx/file.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>

#include "runtime/base/file_kind.h"

namespace reprise::onnx {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxProtobuf = std::numeric_limits<int32_t>::max();  // protobuf's own limit
// A body inside a body takes three levels. This also bounds our own recursion.
constexpr int kMaxDepth = 100;

std::string system_message(int error) {
  return std::generic_category().message(error);
}

/// An open regular file.
class File {
 public:
  static Result<File> open(const std::string& path) {
    // O_NONBLOCK: opening a pipe must not wait for a writer.
    File f(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (f.fd_ < 0) return Status(Code::Io, path + ": " + system_message(errno));
    struct stat info {};
    if (fstat(f.fd_, &info) != 0) return Status(Code::Io, path + ": " + system_message(errno));
    if (!S_ISREG(info.st_mode)) return Status(Code::Io, path + ": is not a regular file");
    f.size_ = info.st_size;
    return f;
  }
  File(File&& o) noexcept : fd_(std::exchange(o.fd_, -1)), size_(o.size_) {}
  File& operator=(File&& o) noexcept {
    std::swap(fd_, o.fd_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  int64_t size() const { return size_; }

 private:
  explicit File(int fd) : fd_(fd) {}
  int fd_ = -1;
  int64_t size_ = 0;
};

template <typename Message>
bool parse(google::protobuf::io::CodedInputStream& in, Message& message) {
  in.SetRecursionLimit(kMaxDepth);
  return message.ParseFromCodedStream(&in) && in.ConsumedEntireMessage();
}

/// What the file is instead of a protobuf; empty if that is not known.
std::string kind_of(const File& file) {
  std::array<std::byte, kFileKindBytes> start{};
  const ssize_t size = ::pread(file.fd(), start.data(), start.size(), 0);
  return file_kind(std::span(start).first(static_cast<size_t>(std::max<ssize_t>(size, 0))));
}

}  // namespace

template <typename Message>
Result<std::shared_ptr<const Message>> read_message(const std::string& path, const char* what) {
  RP_ASSIGN(File file, File::open(path));
  if (file.size() == 0) return invalid_model(path + ": the file is empty");
  if (file.size() > kMaxProtobuf) {
    return invalid_model(path +
                         ": larger than 2 GiB, which no protobuf file can be; store the "
                         "weights as external data");
  }
  const std::string other = kind_of(file);
  if (!other.empty()) return invalid_model(path + ": is not " + what + ", but " + other);
  google::protobuf::io::FileInputStream stream(file.fd(), 1 << 20);
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

Result<std::shared_ptr<const wire::Model>> read_model(const std::string& path) {
  return read_message<wire::Model>(path, "an ONNX model");
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

Result<Mapped> ExternalData::open(const std::string& location) {
  if (folder_.empty()) {
    return invalid_model("external data " + shown(location) +
                         " of a model in memory; import the model from its file");
  }
  auto known = files_.find(location);
  if (known != files_.end()) return known->second;
  const fs::path relative(location);
  const bool climbs = std::find(relative.begin(), relative.end(), "..") != relative.end();
  if (location.empty() || relative.is_absolute() || climbs ||
      location.find('\0') != std::string::npos) {
    return invalid_model("external data " + shown(location) +
                         ": only files inside the model's folder are read");
  }
  std::error_code error;
  const fs::path folder = fs::canonical(folder_, error);
  if (error) return Status(Code::Io, folder_ + ": " + error.message());
  const fs::path target = fs::canonical(folder / relative, error);
  if (error) return Status(Code::Io, "external data " + shown(location) + ": " + error.message());
  if (std::mismatch(folder.begin(), folder.end(), target.begin(), target.end()).first !=
      folder.end()) {
    return invalid_model("external data " + shown(location) +
                         " is a link that leaves the model's folder; copy the file there");
  }
  RP_ASSIGN(File file, File::open(target.string()));
  Mapped mapped;
  if (file.size() > 0) {
    const auto size = static_cast<size_t>(file.size());
    void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
    if (data == MAP_FAILED) {
      return Status(Code::Io, target.string() + ": " + system_message(errno));
    }
    mapped.bytes = {static_cast<const std::byte*>(data), size};
    mapped.owner = std::shared_ptr<const void>(
        data, [size](const void* p) { munmap(const_cast<void*>(p), size); });
  }
  files_.emplace(location, mapped);
  return mapped;
}

}  // namespace reprise::onnx

// reprise_replay FOLDER [DEVICE...]: runs each package FOLDER/CASE/model.rpk on each device, and
// compares with the expected outputs. Checks that packages open from paths with any characters,
// from a part of a file and from memory as well. Exits with 0 if everything is right.
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "tests/platforms/cases.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <fcntl.h>
#include <unistd.h>
#endif

namespace reprise::platforms {
namespace {

namespace fs = std::filesystem;

std::string utf8(const fs::path& path) {
  const std::u8string text = path.u8string();
  return {text.begin(), text.end()};
}

class Native {
 public:
  explicit Native(const fs::path& path)
#if defined(_WIN32)
      : file_(CreateFileW(path.c_str(), GENERIC_READ, FILE_SHARE_READ, nullptr, OPEN_EXISTING, 0,
                          nullptr)) {
  }
  ~Native() {
    CloseHandle(file_);
  }
  intptr_t get() const {
    return reinterpret_cast<intptr_t>(file_);
  }

 private:
  HANDLE file_;
#else
      : file_(open(path.c_str(), O_RDONLY)) {
  }
  ~Native() {
    close(file_);
  }
  intptr_t get() const {
    return file_;
  }

 private:
  int file_;
#endif
 public:
  Native(const Native&) = delete;
  Native& operator=(const Native&) = delete;
};

struct Counts {
  int right = 0, wrong = 0;
};

void report(Counts& counts, const std::string& name, const std::string& device,
            const std::string& wrong) {
  ++(wrong.empty() ? counts.right : counts.wrong);
  if (!wrong.empty())
    std::printf("WRONG %s on %s: %s\n", name.c_str(), device.c_str(), wrong.c_str());
}

std::string run_package(const Package& package, const Device& device, const fs::path& folder) {
  std::vector<Data> inputs, expected;
  std::string wrong = read_tensors(folder / "test_data_set_0", "input", inputs);
  if (wrong.empty()) wrong = read_tensors(folder / "test_data_set_0", "output", expected);
  if (!wrong.empty()) return wrong;
  if (expected.empty()) return "there are no expected outputs";
  auto session = Session::create(package, device);
  if (!session) return session.error().message;
  std::vector<reprise_tensor> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    reprise_slot slot = REPRISE_SLOT_INIT;
    reprise_error error{};
    if (reprise_session_input(session->get(), i, &slot, &error) != REPRISE_OK) return error.message;
    reprise_tensor& t = in.emplace_back();
    t = REPRISE_TENSOR_INIT;
    t.name = slot.name;
    t.dtype = inputs[i].dtype;
    for (const int64_t d : inputs[i].dims) t.dims[t.rank++] = d;
    t.data = inputs[i].bytes.data();
    t.bytes = inputs[i].bytes.size();
  }
  for (int run = 0; run < 2; ++run) {  // the second one replays what the first one recorded
    reprise_error error{};
    reprise_results* raw = nullptr;
    if (reprise_session_run(session->get(), in.data(), in.size(), nullptr, 0, &raw, nullptr,
                            &error) != REPRISE_OK)
      return error.message;
    const auto found =
        read_results(session->get(), Handle<reprise_results, reprise_results_free>(raw));
    if (!found) return found.error().message;
    if (found->size() != expected.size()) return "the number of outputs differs";
    for (size_t i = 0; i < expected.size() && wrong.empty(); ++i)
      wrong = difference((*found)[i], expected[i]);
    if (!wrong.empty()) return "run " + std::to_string(run) + ": " + wrong;
  }
  return {};
}

constexpr const char8_t* kAnyName = u8"Gr\u00f6\u00dfe \u6a21\u578b \U0001f980";

/// A device keeps what its driver compiled in a folder of any name.
std::string check_cache(const fs::path& folder, const std::string& id) {
  const fs::path cache = folder / kAnyName;
  const std::string name = utf8(cache);
  std::error_code error;
  fs::remove_all(cache, error);
  {
    reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
    options.cache_dir = name.c_str();
    const auto device = Device::open(id, &options);
    if (!device) return device.error().message;
    const auto package = Package::open(utf8(folder / "model.rpk"));
    if (!package) return package.error().message;
    const std::string wrong = run_package(*package, *device, folder);
    if (!wrong.empty()) return wrong;
  }
  const bool kept = fs::is_directory(cache, error) && !fs::is_empty(cache, error);
  fs::remove_all(cache, error);
  return kept ? "" : "'" + name + "' has no file";
}

/// Files are found under any name, and packages within other files and in memory.
void check_files(const fs::path& folder, const Device& host, Counts& counts) {
  const fs::path copies = folder / kAnyName;
  std::error_code error;
  fs::remove_all(copies, error);
  fs::create_directories(copies);
  const std::vector<unsigned char> bytes = read_file(folder / "model.rpk");
  std::ofstream(copies / "model.rpk", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  {
    std::ofstream inside(copies / "assets.bin", std::ios::binary);
    inside << "1234567";
    inside.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    inside << "what follows";
  }
  const auto use = [&](const std::string& name, const Result<Package>& package) {
    report(counts, name, "host",
           package ? run_package(*package, host, folder) : package.error().message);
  };
  {
    const auto package = Package::open(utf8(copies / "model.rpk"));
    use("package with a Unicode path", package);
    if (package) {
      const Error saved = package->save(utf8(copies / "saved.rpk"));
      report(counts, "saving under a Unicode path", "host", saved.message);
      const Error again = package->save(utf8(copies / "saved.rpk"));
      report(counts, "replacing a file", "host", again.message);
      use("saved package", Package::open(utf8(copies / "saved.rpk")));
    }
    Result<Package> part = Error{};
    {
      const Native file(copies / "assets.bin");
      part = Package::open_part(file.get(), 7, bytes.size());
    }
    use("package within a file", part);
    const auto missing = Package::open(utf8(copies / "missing.rpk"));
    report(counts, "missing file", "host",
           !missing && missing.error().status == REPRISE_IO ? "" : "no REPRISE_IO");
    reprise_package* raw = nullptr;
    reprise_error failed{};
    reprise_package_open_memory(bytes.data(), bytes.size(), &raw, &failed);
    use("package in memory", raw ? Result<Package>(Package(raw)) : Result<Package>(failed));
  }
  fs::remove_all(copies, error);
  report(counts, "removing files of closed packages", "host", error ? error.message() : "");
}

int replay(const fs::path& root, const std::vector<std::string>& devices) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (fs::exists(entry.path() / "model.rpk")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  if (folders.empty()) {
    std::printf("no packages in %s\n", utf8(root).c_str());
    return 1;
  }
  int status = 0;
  for (const std::string& id : devices) {
    const auto device = Device::open(id);
    if (!device) {
      std::printf("%s cannot be opened: %s\n", id.c_str(), device.error().message.c_str());
      status = 1;
      continue;
    }
    Counts counts;
    for (const fs::path& folder : folders) {
      const auto package = Package::open(utf8(folder / "model.rpk"));
      report(counts, utf8(folder.filename()), id,
             package ? run_package(*package, *device, folder) : package.error().message);
    }
    if (id == "host") check_files(folders.front(), *device, counts);
    if (id != "host") report(counts, "cache", id, check_cache(folders.front(), id));
    std::printf("%s (%s): %d right, %d wrong\n", id.c_str(), device->info().name, counts.right,
                counts.wrong);
    std::fflush(stdout);
    if (counts.wrong > 0) status = 1;
  }
  return status;
}

}  // namespace
}  // namespace reprise::platforms

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  std::vector<std::string> devices(argv + 2, argv + argc);
  if (devices.empty()) devices = {"host"};
  return reprise::platforms::replay(argv[1], devices);
}

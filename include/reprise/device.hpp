/// @file
/// Packages, devices and their memory in C++. reprise.hpp includes it.
#ifndef REPRISE_DEVICE_HPP_
#define REPRISE_DEVICE_HPP_

#include <string>
#include <utility>
#include <vector>

#include "reprise/reprise.h"
#include "reprise/result.hpp"

namespace reprise {
inline namespace api {

/// A compiled model.
class Package {
 public:
  /// Takes ownership of the handle.
  explicit Package(reprise_package* owned) : handle_(owned) {}
  /// Opens the package in a file.
  static Result<Package> open(const std::string& path) {
    reprise_error e{};
    reprise_package* p = nullptr;
    if (reprise_package_open(path.c_str(), &p, &e) != REPRISE_OK) return e;
    return Package(p);
  }
  /// Opens a package that is a part of a file. reprise_package_open_part says what `file` is;
  /// `length` 0: up to its end.
  static Result<Package> open_part(intptr_t file, uint64_t offset, uint64_t length) {
    reprise_error e{};
    reprise_package* p = nullptr;
    if (reprise_package_open_part(file, offset, length, &p, &e) != REPRISE_OK) return e;
    return Package(p);
  }
  /// Opens a package in memory, which is not copied. reprise_package_open_memory says how long
  /// `bytes` must live.
  static Result<Package> open_memory(const void* bytes, size_t size) {
    reprise_error e{};
    reprise_package* p = nullptr;
    if (reprise_package_open_memory(bytes, size, &p, &e) != REPRISE_OK) return e;
    return Package(p);
  }
  /// Writes the package to a file, completely or not at all.
  Error save(const std::string& path) const {
    return outcome([&](reprise_error* e) { return reprise_package_save(get(), path.c_str(), e); });
  }

  /// What the package has, without a device. Strings live as long as the package.
  reprise_package_info info() const {
    reprise_package_info i = REPRISE_PACKAGE_INFO_INIT;
    reprise_package_get_info(get(), &i, nullptr);
    return i;
  }
  /// The inputs, in the model's order. Strings live as long as the package.
  std::vector<reprise_slot> inputs() const {
    return slots(info().input_count, reprise_package_input);
  }
  /// The outputs, likewise.
  std::vector<reprise_slot> outputs() const {
    return slots(info().output_count, reprise_package_output);
  }
  /// The states, likewise.
  std::vector<reprise_slot> states() const {
    return slots(info().state_count, reprise_package_state);
  }
  /// The sizes that the inputs of a run decide.
  std::vector<reprise_symbol> symbols() const {
    std::vector<reprise_symbol> all(info().symbol_count, REPRISE_SYMBOL_INIT);
    for (size_t i = 0; i < all.size(); ++i) reprise_package_symbol(get(), i, &all[i], nullptr);
    return all;
  }
  /// The variants, in the order in which sessions try them.
  std::vector<reprise_variant> variants() const {
    std::vector<reprise_variant> all(info().variant_count, REPRISE_VARIANT_INIT);
    for (size_t i = 0; i < all.size(); ++i) reprise_package_variant(get(), i, &all[i], nullptr);
    return all;
  }
  /// Names and values of the properties that the model file had for applications.
  std::vector<std::pair<std::string, std::string>> metadata() const {
    std::vector<std::pair<std::string, std::string>> all;
    for (size_t i = 0; i < info().metadata_count; ++i) {
      const char *name = nullptr, *value = nullptr;
      if (reprise_package_metadata(get(), i, &name, &value, nullptr) == REPRISE_OK)
        all.emplace_back(name, value);
    }
    return all;
  }
  /// The handle, which the package keeps.
  reprise_package* get() const { return handle_.get(); }

 private:
  template <typename F>
  std::vector<reprise_slot> slots(size_t count, F read) const {
    std::vector<reprise_slot> all(count, REPRISE_SLOT_INIT);
    for (size_t i = 0; i < count; ++i) read(get(), i, &all[i], nullptr);
    return all;
  }
  Handle<reprise_package, reprise_package_free> handle_;
};

/// A device, or the host.
class Device {
 public:
  /// All devices, also those that cannot be used, with the reasons.
  static Result<std::vector<reprise_device_info>> list() {
    reprise_error e{};
    size_t count = 0;
    if (reprise_list_devices(nullptr, 0, &count, &e) != REPRISE_OK) return e;
    std::vector<reprise_device_info> all(count, REPRISE_DEVICE_INFO_INIT);
    if (reprise_list_devices(all.data(), all.size(), &count, &e) != REPRISE_OK) return e;
    if (count < all.size()) all.resize(count);
    return all;
  }
  /// Opens a device. reprise_device_open describes the ids.
  static Result<Device> open(const std::string& id = "auto",
                             const reprise_device_options* options = nullptr) {
    reprise_error e{};
    reprise_device* d = nullptr;
    if (reprise_device_open(id.c_str(), options, &d, &e) != REPRISE_OK) return e;
    return Device(d);
  }
  /// Opens the best device for which the package has a variant, or else the host.
  static Result<Device> open_for(const Package& package) {
    reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
    options.package = package.get();
    return open("auto", &options);
  }
  /// What is known of the device.
  reprise_device_info info() const {
    reprise_device_info i = REPRISE_DEVICE_INFO_INIT;
    reprise_device_get_info(get(), &i, nullptr);
    return i;
  }
  /// Sets the most memory, in bytes, that sessions and buffers may use; 0: no limit.
  Error set_memory_budget(uint64_t bytes) {
    return outcome(
        [&](reprise_error* e) { return reprise_device_set_memory_budget(get(), bytes, e); });
  }
  /// Frees the memory of idle sessions.
  Error trim() {
    return outcome([&](reprise_error* e) { return reprise_device_trim(get(), e); });
  }
  /// The handle, which the device keeps.
  reprise_device* get() const { return handle_.get(); }

 private:
  explicit Device(reprise_device* owned) : handle_(owned) {}
  Handle<reprise_device, reprise_device_free> handle_;
};

/// Device memory that runs use in place. It must outlive them.
class Buffer {
 public:
  /// Allocates `bytes` bytes on a device, which is not the host.
  static Result<Buffer> create(const Device& device, uint64_t bytes) {
    reprise_error e{};
    reprise_buffer* b = nullptr;
    if (reprise_buffer_create(device.get(), bytes, &b, &e) != REPRISE_OK) return e;
    return Buffer(b);
  }
  /// Borrows a VkBuffer or CUdeviceptr of the application; see reprise_buffer_borrow().
  static Result<Buffer> borrow(const Device& device, uint64_t handle, uint64_t bytes) {
    reprise_error e{};
    reprise_buffer* b = nullptr;
    if (reprise_buffer_borrow(device.get(), handle, bytes, &b, &e) != REPRISE_OK) return e;
    return Buffer(b);
  }
  /// Imports memory that another API or process exported; see reprise_buffer_import().
  static Result<Buffer> import(const Device& device, const reprise_external_memory& memory) {
    reprise_error e{};
    reprise_buffer* b = nullptr;
    if (reprise_buffer_import(device.get(), &memory, &b, &e) != REPRISE_OK) return e;
    return Buffer(b);
  }
  /// Copies bytes to the buffer, from `offset` bytes on.
  Error write(const void* data, uint64_t bytes, uint64_t offset = 0) {
    return outcome(
        [&](reprise_error* e) { return reprise_buffer_write(get(), offset, data, bytes, e); });
  }
  /// Copies bytes from the buffer, from `offset` bytes on.
  Error read(void* data, uint64_t bytes, uint64_t offset = 0) const {
    return outcome(
        [&](reprise_error* e) { return reprise_buffer_read(get(), offset, data, bytes, e); });
  }
  /// The handle, which the buffer keeps.
  reprise_buffer* get() const { return handle_.get(); }

 private:
  explicit Buffer(reprise_buffer* owned) : handle_(owned) {}
  Handle<reprise_buffer, reprise_buffer_free> handle_;
};

/// Memory for intermediate tensors that sessions share (reprise_session_options::arena).
class Arena {
 public:
  /// Makes an arena on a device.
  static Result<Arena> create(const Device& device) {
    reprise_error e{};
    reprise_arena* a = nullptr;
    if (reprise_arena_create(device.get(), &a, &e) != REPRISE_OK) return e;
    return Arena(a);
  }
  /// The bytes that it has on the device now.
  Result<uint64_t> bytes() const {
    reprise_error e{};
    uint64_t bytes = 0;
    if (reprise_arena_get_bytes(get(), &bytes, &e) != REPRISE_OK) return e;
    return bytes;
  }
  /// The handle, which the arena keeps.
  reprise_arena* get() const { return handle_.get(); }

 private:
  explicit Arena(reprise_arena* owned) : handle_(owned) {}
  Handle<reprise_arena, reprise_arena_free> handle_;
};

}  // namespace api
}  // namespace reprise

#endif

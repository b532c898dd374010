#include "runtime/api_handles.h"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

namespace reprise::capi {
namespace {

struct Entry {
  std::shared_ptr<void> object;
  std::string_view kind;
};

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<uintptr_t, Entry> entries;
  Table* parents = nullptr;  // the table of the process from which this one was forked
};

constexpr uintptr_t kStep = 16;  // keys differ by as much as addresses of objects
std::atomic<uintptr_t> next_key = kStep;
std::atomic<uintptr_t> first_own_key = 0;
std::atomic<Table*> current = nullptr;

// In a child of fork() drivers do not work, and locks that other threads held stay locked. The
// objects of the parent are therefore never used or freed.
void in_child() {
  Table* const parents = current.load();
  auto* const own = new (std::nothrow) Table;
  if (own) own->parents = parents;
  first_own_key = next_key.load();
  current = own;
}

Table* table() {
  static const bool made = [] {
    current = new Table;  // never freed: handles may be freed while the process ends
    ::pthread_atfork(nullptr, nullptr, in_child);
    return true;
  }();
  return made ? current.load() : nullptr;
}

Status unknown(const void* handle, std::string_view kind) {
  const std::string subject = "this " + std::string(kind) + " handle ";
  if (reinterpret_cast<uintptr_t>(handle) < first_own_key)
    return {Code::Usage, subject + "belongs to the parent process of fork(); create a new one"};
  return {Code::Usage, subject + "was freed, or never was a valid handle"};
}

}  // namespace

void* Handles::add(std::shared_ptr<void> object, std::string_view kind) {
  Table* const t = table();
  if (!t) throw std::bad_alloc();
  const std::lock_guard lock(t->mutex);
  uintptr_t key = 0;
  do {
    key = next_key.fetch_add(kStep);
  } while (key == 0 || t->entries.contains(key));
  t->entries.emplace(key, Entry{std::move(object), kind});
  return reinterpret_cast<void*>(key);  // NOLINT(performance-no-int-to-ptr): a key, not an address
}

Result<std::shared_ptr<void>> Handles::find(const void* handle, std::string_view kind) {
  Table* const t = table();
  if (!handle) return Status(Code::Usage, std::string(kind) + " is null");
  if (!t) return unknown(handle, kind);
  const std::shared_lock lock(t->mutex);
  const auto found = t->entries.find(reinterpret_cast<uintptr_t>(handle));
  if (found == t->entries.end() || found->second.kind != kind) return unknown(handle, kind);
  return found->second.object;
}

std::shared_ptr<void> Handles::remove(const void* handle, std::string_view kind) noexcept {
  std::shared_ptr<void> object;
  Table* const t = current.load();
  if (!t) return object;
  const std::lock_guard lock(t->mutex);
  const auto found = t->entries.find(reinterpret_cast<uintptr_t>(handle));
  if (found == t->entries.end() || found->second.kind != kind) return object;
  object = std::move(found->second.object);
  t->entries.erase(found);
  return object;
}

void copy_text(char* out, size_t capacity, std::string_view text) {
  size_t n = std::min(text.size(), capacity - 1);
  while (n > 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80)
    --n;  // do not split a character
  std::memcpy(out, text.data(), n);
  out[n] = 0;
}

// Allocates no memory, because it also reports that there is none.
reprise_status report(Code code, std::string_view message, reprise_error* error) noexcept {
  const auto status = static_cast<reprise_status>(code);
  if (error) {
    error->status = status;
    copy_text(error->message, sizeof(error->message), message);
  }
  return status;
}

Status check_struct(const void* given, size_t size, size_t own, std::span<const size_t> ends,
                    const char* name) {
  constexpr size_t kLargest = 4096;  // an upper bound for later versions
  const std::string_view what = name;
  const auto refuse = [&](const char* why) {
    return Status(Code::Usage, std::string(what) + ": struct_size " + std::to_string(size) + why);
  };
  if (size == own) return {};
  if (size < own) {
    if (std::find(ends.begin(), ends.end(), size) != ends.end()) return {};
    return refuse(" is not that of any version; initialise the struct with its REPRISE_..._INIT");
  }
  if (size > kLargest || size % sizeof(size_t) != 0)
    return refuse(" is implausible; initialise the struct with its REPRISE_..._INIT");
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (size_t i = own; given && i < size; ++i)
    if (bytes[i] != 0)
      return refuse(
          " is that of a later version, and members that this version does not know are set");
  return {};
}

}  // namespace reprise::capi

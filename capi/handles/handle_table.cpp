// The table of all handles. libreprise_compiler has another definition of these functions, which
// calls the table of libreprise.
#include "capi/handles/handles.h"

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "runtime/platform/process.h"

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
    platform::call_in_forked_child(in_child);
    platform::stay_loaded();
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

Status Handles::check() {
  return {};
}

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

}  // namespace reprise::capi

// Windows. Names of files are UTF-8 in our interface and UTF-16 in that of the system.
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
// They need the types of windows.h.
#include <aclapi.h>
#include <fcntl.h>
#include <io.h>
#include <sddl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <filesystem>
#include <random>
#include <thread>

#include "runtime/platform/file.h"
#include "runtime/platform/library.h"
#include "runtime/platform/output_file.h"
#include "runtime/platform/partial_file.h"
#include "runtime/platform/path.h"
#include "runtime/platform/process.h"
#include "runtime/platform/windows.h"

namespace reprise::platform {

namespace fs = std::filesystem;

std::wstring to_utf16(const std::string& text) {
  const int size =
      ::MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), nullptr, 0);
  std::wstring out(static_cast<size_t>(std::max(size, 0)), L'\0');
  ::MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), out.data(), size);
  return out;
}

std::string to_utf8(const std::wstring& text) {
  const int size = ::WideCharToMultiByte(CP_UTF8, 0, text.data(), static_cast<int>(text.size()),
                                         nullptr, 0, nullptr, nullptr);
  std::string out(static_cast<size_t>(std::max(size, 0)), '\0');
  ::WideCharToMultiByte(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), out.data(), size,
                        nullptr, nullptr);
  return out;
}

std::string system_text(unsigned long error) {
  std::array<wchar_t, 512> text{};
  DWORD size = ::FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, nullptr,
                                error, 0, text.data(), static_cast<DWORD>(text.size()), nullptr);
  while (size > 0 && (text[size - 1] <= L' ' || text[size - 1] == L'.')) --size;
  if (size == 0) return "error " + std::to_string(error) + " of Windows";
  return to_utf8({text.data(), size});
}

namespace {

constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

HANDLE handle_of(NativeFile file) {
  return reinterpret_cast<HANDLE>(file);  // NOLINT(performance-no-int-to-ptr): a handle
}

NativeFile native(HANDLE handle) {
  return reinterpret_cast<NativeFile>(handle);
}

Status failure(const std::string& what) {
  return {Code::Io, what + ": " + system_text(::GetLastError())};
}

/// Memory that the system allocated.
template <typename T>
struct Local {
  T* data = nullptr;
  Local() = default;
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;
  ~Local() { ::LocalFree(data); }
};

/// The user of this process.
class User {
 public:
  User() {
    HANDLE token = nullptr;
    DWORD size = 0;
    if (!::OpenProcessToken(::GetCurrentProcess(), TOKEN_QUERY, &token)) return;
    if (!::GetTokenInformation(token, TokenUser, data_.data(), static_cast<DWORD>(data_.size()),
                               &size))
      data_ = {};
    ::CloseHandle(token);
  }
  PSID id() const { return reinterpret_cast<const TOKEN_USER*>(data_.data())->User.Sid; }

 private:
  alignas(TOKEN_USER) std::array<std::byte, sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE> data_{};
};

bool is_well_known(PSID id, WELL_KNOWN_SID_TYPE type) {
  return ::IsWellKnownSid(id, type) != 0;
}

bool anyone_may_write(PACL list) {
  constexpr DWORD kWrites = FILE_WRITE_DATA | FILE_APPEND_DATA | WRITE_DAC | WRITE_OWNER | DELETE |
                            GENERIC_WRITE | GENERIC_ALL;
  if (!list) return true;
  for (DWORD i = 0; i < list->AceCount; ++i) {
    void* entry = nullptr;
    if (!::GetAce(list, i, &entry)) continue;
    auto* const allowed = static_cast<ACCESS_ALLOWED_ACE*>(entry);
    if (allowed->Header.AceType != ACCESS_ALLOWED_ACE_TYPE || (allowed->Mask & kWrites) == 0)
      continue;
    PSID const who = &allowed->SidStart;
    for (const auto group : {WinWorldSid, WinAuthenticatedUserSid, WinBuiltinUsersSid,
                             WinBuiltinGuestsSid, WinAnonymousSid, WinInteractiveSid}) {
      if (is_well_known(who, group)) return true;
    }
  }
  return false;
}

// As on POSIX: other users could have left files for us.
std::string why_distrusted(HANDLE file) {
  BY_HANDLE_FILE_INFORMATION info{};
  if (::GetFileType(file) != FILE_TYPE_DISK) return "it is not a regular file";
  if (!::GetFileInformationByHandle(file, &info)) return "it cannot be read";
  if ((info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0) return "it is a symbolic link";
  if ((info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0) return "it is not a regular file";
  PSID owner = nullptr;
  PACL access = nullptr;
  Local<void> descriptor;
  if (::GetSecurityInfo(file, SE_FILE_OBJECT,
                        OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner, nullptr,
                        &access, nullptr, &descriptor.data) != ERROR_SUCCESS)
    return "its owner cannot be read";
  const User me;
  if (!owner || !me.id() ||
      !(::EqualSid(owner, me.id()) || is_well_known(owner, WinBuiltinAdministratorsSid) ||
        is_well_known(owner, WinLocalSystemSid)))
    return "it belongs to another user than the one who would use it";
  return anyone_may_write(access) ? "others than its owner may write to it" : "";
}

/// Access for this user, administrators and the system alone.
class OwnAccess {
 public:
  OwnAccess() {
    const User me;
    Local<wchar_t> name;
    if (!me.id() || !::ConvertSidToStringSidW(me.id(), &name.data)) return;
    const std::wstring text =
        std::wstring(L"D:P(A;OICI;FA;;;") + name.data + L")(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)";
    if (!::ConvertStringSecurityDescriptorToSecurityDescriptorW(text.c_str(), SDDL_REVISION_1,
                                                                &descriptor_.data, nullptr))
      return;
    attributes_ = {sizeof attributes_, descriptor_.data, FALSE};
  }
  /// Null if it cannot be expressed.
  SECURITY_ATTRIBUTES* attributes() { return descriptor_.data ? &attributes_ : nullptr; }

 private:
  Local<void> descriptor_;
  SECURITY_ATTRIBUTES attributes_{};
};

File stream_of(HANDLE handle, int flags, const char* mode) {
  if (handle == INVALID_HANDLE_VALUE) return nullptr;
  const int fd = ::_open_osfhandle(native(handle), flags | _O_BINARY | _O_NOINHERIT);
  if (fd < 0) {
    ::CloseHandle(handle);
    return nullptr;
  }
  File file(::_fdopen(fd, mode));
  if (!file) ::_close(fd);
  return file;
}

}  // namespace

Result<InputFile> InputFile::open(const std::string& path) {
  InputFile out;
  out.file_ = native(::CreateFileW(to_utf16(path).c_str(), GENERIC_READ, kShareAll, nullptr,
                                   OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr));
  if (out.file_ == -1) return failure("cannot be opened");
  RP_TRY(out.inspect());
  return out;
}

// A duplicate would share its position with the file of the caller.
Result<InputFile> InputFile::part_of(NativeFile file, uint64_t offset, uint64_t length) {
  InputFile out;
  out.file_ = native(::ReOpenFile(handle_of(file), GENERIC_READ, kShareAll, 0));
  if (out.file_ == -1) return failure("cannot be used");
  RP_TRY(out.inspect());
  RP_TRY(out.take(offset, length));
  return out;
}

void InputFile::close() {
  if (file_ != -1) ::CloseHandle(handle_of(file_));
  file_ = -1;
}

Status InputFile::inspect() {
  LARGE_INTEGER size{};
  if (::GetFileType(handle_of(file_)) != FILE_TYPE_DISK) return {Code::Io, "is not a regular file"};
  if (!::GetFileSizeEx(handle_of(file_), &size)) return failure("cannot be read");
  size_ = static_cast<uint64_t>(size.QuadPart);
  return {};
}

Result<size_t> InputFile::read_some(uint64_t offset, std::span<std::byte> out) const {
  constexpr size_t kMost = size_t{1} << 30;
  size_t done = 0;
  while (done < out.size()) {
    OVERLAPPED at{};
    const uint64_t position = begin_ + offset + done;
    at.Offset = static_cast<DWORD>(position);
    at.OffsetHigh = static_cast<DWORD>(position >> 32);
    DWORD n = 0;
    const auto want = static_cast<DWORD>(std::min(out.size() - done, kMost));
    if (!::ReadFile(handle_of(file_), out.data() + done, want, &n, &at)) {
      if (::GetLastError() == ERROR_HANDLE_EOF) break;
      return failure("cannot be read");
    }
    if (n == 0) break;
    done += n;
  }
  return done;
}

Result<std::shared_ptr<const std::span<const std::byte>>> InputFile::map() const {
  using Bytes = std::span<const std::byte>;
  if (size_ == 0) return std::make_shared<const Bytes>();
  HANDLE const mapping =
      ::CreateFileMappingW(handle_of(file_), nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (!mapping) return failure("cannot be mapped");
  const void* const data = ::MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, size_);
  const Status mapped = data ? Status() : failure("cannot be mapped");
  ::CloseHandle(mapping);  // the view keeps it
  if (!mapped.ok()) return mapped;
  return std::shared_ptr<const Bytes>(new Bytes(static_cast<const std::byte*>(data), size_),
                                      [](const Bytes* bytes) {
                                        ::UnmapViewOfFile(bytes->data());
                                        delete bytes;
                                      });
}

File open_stream(const std::string& path, const char* mode) {
  return File(::_wfopen(to_utf16(path).c_str(), to_utf16(mode).c_str()));
}

File open_own_file(const std::string& path, std::string& wrong) {
  wrong.clear();
  HANDLE const file = ::CreateFileW(to_utf16(path).c_str(), GENERIC_READ | READ_CONTROL, kShareAll,
                                    nullptr, OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, nullptr);
  if (file == INVALID_HANDLE_VALUE) return nullptr;
  wrong = why_distrusted(file);
  if (wrong.empty()) return stream_of(file, _O_RDONLY, "rb");
  ::CloseHandle(file);
  return nullptr;
}

File create_own_file(const std::string& path) {
  OwnAccess access;
  if (!access.attributes()) return nullptr;
  return stream_of(::CreateFileW(to_utf16(path).c_str(), GENERIC_WRITE, kShareAll,
                                 access.attributes(), CREATE_NEW, FILE_ATTRIBUTE_NORMAL, nullptr),
                   _O_WRONLY, "wb");
}

bool create_own_folder(const std::string& path) {
  const fs::path folder = utf8_path(path);
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return true;
  if (folder.has_parent_path() && folder.parent_path() != folder &&
      !create_own_folder(utf8_text(folder.parent_path())))
    return false;
  OwnAccess access;
  return access.attributes() && (::CreateDirectoryW(folder.c_str(), access.attributes()) ||
                                 ::GetLastError() == ERROR_ALREADY_EXISTS);
}

Result<std::string> create_temporary_folder() {
  std::error_code error;
  const fs::path above = fs::temp_directory_path(error);
  OwnAccess access;
  std::random_device random;
  for (int attempt = 0; !error && access.attributes() && attempt < 100; ++attempt) {
    const fs::path folder = above / (L"reprise-" + std::to_wstring(random()));
    if (::CreateDirectoryW(folder.c_str(), access.attributes())) return utf8_text(folder);
    if (::GetLastError() != ERROR_ALREADY_EXISTS) break;
  }
  return failure("cannot create a temporary folder");
}

struct OutputFile::Impl {
  std::wstring target;     // empty: the path is written in place
  std::wstring temporary;  // the new file
  HANDLE file = INVALID_HANDLE_VALUE;
  bool removed_at_end = false;
  DWORD error = 0;

  void close() {
    if (file != INVALID_HANDLE_VALUE) ::CloseHandle(file);
    file = INVALID_HANDLE_VALUE;
  }

  /// Whether there is something else than a regular file at the path, which is then opened.
  bool open_in_place(const std::wstring& path) {
    file = ::CreateFileW(path.c_str(), GENERIC_WRITE, kShareAll, nullptr, OPEN_EXISTING,
                         FILE_ATTRIBUTE_NORMAL, nullptr);
    if (file == INVALID_HANDLE_VALUE) return false;
    if (::GetFileType(file) != FILE_TYPE_DISK) return true;
    std::array<wchar_t, 4096> name{};  // follows symbolic links
    const DWORD size =
        ::GetFinalPathNameByHandleW(file, name.data(), static_cast<DWORD>(name.size()), 0);
    if (size > 0 && size < name.size()) target.assign(name.data(), size);
    close();
    return false;
  }

  void open(const std::wstring& path) {
    static std::atomic<unsigned> counter{0};
    if (path.empty()) {
      ::SetLastError(ERROR_PATH_NOT_FOUND);
      return;
    }
    target = path;
    if (open_in_place(path)) {
      target.clear();
      return;
    }
    for (int attempt = 0; attempt < 100 && file == INVALID_HANDLE_VALUE; ++attempt) {
      temporary = target + L".tmp" + std::to_wstring(::GetCurrentProcessId()) + L"-" +
                  std::to_wstring(counter++);
      file = ::CreateFileW(temporary.c_str(), GENERIC_WRITE | DELETE, FILE_SHARE_READ, nullptr,
                           CREATE_NEW, FILE_ATTRIBUTE_NORMAL, nullptr);
      if (file == INVALID_HANDLE_VALUE && ::GetLastError() != ERROR_FILE_EXISTS) break;
    }
    const DWORD error = ::GetLastError();
    if (file != INVALID_HANDLE_VALUE) removed_at_end = set_removed_at_end(true);
    ::SetLastError(error);
  }

  /// Whether the system removes the new file if this process ends now, however it ends.
  bool set_removed_at_end(bool removed) const {
    FILE_DISPOSITION_INFO info{};
    info.DeleteFile = removed ? TRUE : FALSE;
    return ::SetFileInformationByHandle(file, FileDispositionInfo, &info, sizeof info) != 0;
  }
};

OutputFile::OutputFile(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->open(to_utf16(path));
  impl_->error = ::GetLastError();
}

OutputFile::~OutputFile() {
  impl_->close();
  if (!impl_->temporary.empty()) ::DeleteFileW(impl_->temporary.c_str());
}

bool OutputFile::open() const {
  return impl_->file != INVALID_HANDLE_VALUE;
}

bool OutputFile::write(const void* data, uint64_t size) {
  constexpr uint64_t kMost = uint64_t{1} << 30;
  const auto* p = static_cast<const char*>(data);
  while (size > 0) {
    DWORD n = 0;
    if (!::WriteFile(impl_->file, p, static_cast<DWORD>(std::min(size, kMost)), &n, nullptr) ||
        n == 0) {
      impl_->error = ::GetLastError();
      return false;
    }
    p += n;
    size -= n;
    written_ += n;
  }
  return true;
}

bool OutputFile::finish() {
  if (impl_->target.empty()) return true;
  bool kept = ::FlushFileBuffers(impl_->file) != 0 &&
              (!impl_->removed_at_end || impl_->set_removed_at_end(false));
  if (kept) {
    impl_->close();
    kept = ::MoveFileExW(impl_->temporary.c_str(), impl_->target.c_str(),
                         MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) != 0;
  }
  if (kept) {
    impl_->temporary.clear();
  } else {
    impl_->error = ::GetLastError();
  }
  return kept;
}

std::string OutputFile::error() const {
  return system_text(impl_->error);
}

void remove_partial_files_on_signals() {}

Result<Descriptor> Descriptor::duplicate(uint64_t) {
  return unsupported("Windows has handles, not file descriptors");
}

Descriptor::~Descriptor() = default;

// A name is looked for beside the program, in the system's folder and along PATH, but never in the
// current folder, where a file may be of anyone.
Library Library::open(const std::string& name) {
  Library out;
  std::wstring path = to_utf16(name);
  DWORD flags = LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
  if (fs::path(path).is_absolute()) flags |= LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR;
  out.handle_ = ::LoadLibraryExW(path.c_str(), nullptr, flags);
  DWORD error = out.handle_ ? 0 : ::GetLastError();
  if (!out.handle_ && !fs::path(path).has_parent_path()) {
    std::wstring folders(32768, L'\0'), found(32768, L'\0');
    folders.resize(::GetEnvironmentVariableW(L"PATH", folders.data(), 32768));
    found.resize(
        ::SearchPathW(folders.c_str(), path.c_str(), nullptr, 32768, found.data(), nullptr));
    if (!found.empty() && fs::path(found).is_absolute()) {
      out.handle_ =
          ::LoadLibraryExW(found.c_str(), nullptr, flags | LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR);
      error = out.handle_ ? 0 : ::GetLastError();
    }
  }
  if (!out.handle_) out.error_ = name + ": " + system_text(error);
  return out;
}

void* Library::find(const char* symbol) const {
  if (!handle_) return nullptr;
  return reinterpret_cast<void*>(::GetProcAddress(static_cast<HMODULE>(handle_), symbol));
}

std::string library_name(const std::string& name) {
  return name + ".dll";
}

std::string program_folder() {
  std::wstring path(32768, L'\0');
  path.resize(::GetModuleFileNameW(nullptr, path.data(), static_cast<DWORD>(path.size())));
  const std::string name = to_utf8(path);
  return name.substr(0, name.find_last_of("\\/") + 1);
}

uint64_t process_id() {
  return ::GetCurrentProcessId();
}

unsigned processors() {
  DWORD_PTR allowed = 0, all = 0;
  const bool known = ::GetProcessAffinityMask(::GetCurrentProcess(), &allowed, &all) != 0;
  // 0: the process has threads in several groups of processors.
  const auto count = static_cast<unsigned>(std::popcount(uint64_t{known ? allowed : 0}));
  return std::max(count != 0 ? count : std::thread::hardware_concurrency(), 1U);
}

void call_in_forked_child(void (*)()) {}

void stay_loaded() {
  HMODULE module = nullptr;
  ::GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                       reinterpret_cast<LPCWSTR>(&stay_loaded), &module);
}

Status check_open_files() {
  return {};  // a process may have 16 million handles
}

void give_back_memory() {}

bool is_terminal(std::FILE* stream) {
  return ::_isatty(::_fileno(stream)) != 0;
}

}  // namespace reprise::platform

namespace reprise {

std::filesystem::path utf8_path(const std::string& text) {
  return platform::to_utf16(text);
}

std::string utf8_text(const std::filesystem::path& path) {
  return platform::to_utf8(path.wstring());
}

}  // namespace reprise

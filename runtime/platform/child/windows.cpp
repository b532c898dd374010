#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
// It needs the types of windows.h.
#include <shellapi.h>

#include <filesystem>

#include "runtime/platform/child/child.h"
#include "runtime/platform/child/environment.h"
#include "runtime/platform/windows.h"

namespace reprise::platform {
namespace {

Status failure(const std::string& what) {
  return {Code::Io, what + ": " + system_text(::GetLastError())};
}

/// An argument as programs of Windows take their command line apart.
std::wstring quoted(const std::string& argument) {
  std::wstring out = L"\"";
  size_t slashes = 0;
  for (const wchar_t c : to_utf16(argument)) {
    if (c == L'"') out.append(slashes + 1, L'\\');
    slashes = c == L'\\' ? slashes + 1 : 0;
    out += c;
  }
  return out.append(slashes, L'\\') + L'"';
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& arguments, const std::string& output) {
  SECURITY_ATTRIBUTES inherited{sizeof inherited, nullptr, TRUE};
  HANDLE const file = ::CreateFileW(to_utf16(output).c_str(), GENERIC_WRITE, FILE_SHARE_READ,
                                    &inherited, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) return failure(output);
  std::wstring line;
  for (const std::string& a : arguments) line += (line.empty() ? L"" : L" ") + quoted(a);
  STARTUPINFOW start{};
  start.cb = sizeof start;
  start.dwFlags = STARTF_USESTDHANDLES;
  start.hStdOutput = start.hStdError = file;
  PROCESS_INFORMATION child{};
  const bool started = ::CreateProcessW(nullptr, line.data(), nullptr, nullptr, TRUE, 0, nullptr,
                                        nullptr, &start, &child) != 0;
  const Status failed = started ? Status() : failure(arguments.front());
  ::CloseHandle(file);
  if (!started) return failed;
  DWORD status = 1;
  ::WaitForSingleObject(child.hProcess, INFINITE);
  ::GetExitCodeProcess(child.hProcess, &status);
  ::CloseHandle(child.hProcess);
  ::CloseHandle(child.hThread);
  return static_cast<int>(status);
}

// Windows cannot copy a process.
struct Worker::Impl {};

bool Worker::available() {
  return false;
}

Worker::Worker() = default;
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;
Worker::~Worker() = default;

Result<Worker> Worker::start(const Duties&, const std::vector<Worker>&) {
  return unsupported("Windows has no worker processes");
}

void Worker::send(const std::string&) {}
void Worker::kill() {}

Result<std::string> Worker::receive() {
  return std::string();
}

std::string Worker::how_it_ended() {
  return {};
}

Result<std::vector<bool>> Worker::wait(const std::vector<const Worker*>& workers, int) {
  return std::vector<bool>(workers.size(), false);
}

struct IgnorePipeSignal::Impl {};
IgnorePipeSignal::IgnorePipeSignal() = default;
IgnorePipeSignal::~IgnorePipeSignal() = default;

std::vector<std::string> utf8_arguments(int argc, char** argv) {
  ::SetConsoleOutputCP(CP_UTF8);
  int count = 0;
  wchar_t** const wide = ::CommandLineToArgvW(::GetCommandLineW(), &count);
  if (!wide) return {argv, argv + argc};
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back(to_utf8(wide[i]));
  ::LocalFree(wide);
  return out;
}

std::string user_cache_folder() {
  std::wstring folder(32767, L'\0');  // no variable is longer
  folder.resize(
      ::GetEnvironmentVariableW(L"LOCALAPPDATA", folder.data(), static_cast<DWORD>(folder.size())));
  return std::filesystem::path(folder).is_absolute() ? to_utf8(folder) : std::string();
}

}  // namespace reprise::platform

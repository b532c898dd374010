// What the files for Windows share.
#pragma once

#include <string>

namespace reprise::platform {

std::wstring to_utf16(const std::string& text);
std::string to_utf8(const std::wstring& text);
/// The message of an error number of the system.
std::string system_text(unsigned long error);

}  // namespace reprise::platform

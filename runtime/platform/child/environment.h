// What the system tells the command line about its process and user.
#pragma once

#include <string>
#include <vector>

namespace reprise::platform {

/// The arguments of main() in UTF-8. On Windows, where they are not, text that the process prints
/// is UTF-8 from now on as well.
std::vector<std::string> utf8_arguments(int argc, char** argv);
/// Where programs of this user keep caches; empty if that is not known.
std::string user_cache_folder();

}  // namespace reprise::platform

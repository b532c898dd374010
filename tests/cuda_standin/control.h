// What the stand-in driver exports beside the driver API, for tests that load it themselves.
#pragma once

namespace reprise::standin {

/// Sets what the environment variable REPRISE_STANDIN_<key> would (docs/testing.md); an empty value
/// is the default. "RESET_CALLS" makes the counters of calls and edges start again, "RESET_LOG"
/// forgets what the log keeps. While "HOLD" is not empty, launches of graphs wait before their
/// first node. Returns 0, or 1 for a key or value that is not understood.
using Control = int (*)(const char* key, const char* value);
inline constexpr const char* kControl = "reprise_standin_control";

/// A number: "calls" of all symbols, "calls:SYMBOL", "edges" (dependencies added), "live" (objects
/// and allocations that an application has to free), "misuses" (calls with handles that are not
/// alive), "violations" (what the checks found), "leaks" (objects alive when their context went),
/// "order" (a hash of the order in which the last graph's nodes ran). ~0 for another key.
using Stats = unsigned long long (*)(const char* key);
inline constexpr const char* kStats = "reprise_standin_stats";

/// The last thousand lines of the log, printed or not (REPRISE_STANDIN_QUIET). Valid until this
/// thread's next call.
using Lines = const char* (*)();
inline constexpr const char* kLines = "reprise_standin_log";

/// Tells what an image of so many bytes was compiled from, as a file of the folders of
/// REPRISE_STANDIN_SOURCES would. The driver executes that text.
using KeepText = void (*)(const void* image, unsigned long long bytes, const char* text);
inline constexpr const char* kKeepText = "reprise_standin_text";

}  // namespace reprise::standin

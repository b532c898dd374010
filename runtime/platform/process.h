// The process that runs.
#pragma once

#include <cstdint>
#include <cstdio>

#include "runtime/base/status.h"

namespace reprise::platform {

uint64_t process_id();
/// How many processors this thread may run on, at least 1.
unsigned processors();
/// Calls `f` in children of fork() from now on, where there are any.
void call_in_forked_child(void (*f)());
/// Keeps the library that this code is in loaded until the process ends, where the linker cannot:
/// threads of drivers may outlive the last handle.
void stay_loaded();
/// Code::Device if the process cannot open files any more, because it has too many open. Then a
/// library or device that could not be opened may exist after all. It opens a file itself, so call
/// it only after a failure.
Status check_open_files();
/// Gives memory that was freed back to the system, where the C library keeps it.
void give_back_memory();
/// Whether a person reads it.
bool is_terminal(std::FILE* stream);

}  // namespace reprise::platform

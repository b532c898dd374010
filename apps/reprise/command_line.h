// The command line as a function, for the program and for the Python package.
#pragma once

namespace reprise::app {

/// Runs the command that the arguments name and returns the exit status. argv[0] is not read.
int command_line(int argc, char** argv) noexcept;

}  // namespace reprise::app
